/* SPDX-License-Identifier: Apache-2.0 */
/* Puts what a record knows into words, piece by piece, as far as there is room. */
#include "prof/timeline_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <weft/collective.h>

#include "bars.h"

typedef struct words {
    char *text;
    size_t room, used;
} words;

static void say(words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(words *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(w->text + w->used, w->room - w->used, format, arguments);
    va_end(arguments);
    w->used += length > 0 ? (size_t)length : 0;
    w->used = w->used < w->room ? w->used : w->room - 1;
}

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static void say_when(words *w, const timeline_box *box, int64_t origin)
{
    say(w, "%.3f to %.3f ms (%.3f ms)", ms(box->begin - origin), ms(box->end - origin), ms(box->end - box->begin));
}

static void say_bytes(words *w, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double amount = (double)bytes;
    size_t unit = 0;
    for (; amount >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        amount /= 1024;
    say(w, "%.*f %s", unit ? 1 : 0, amount, units[unit]);
}

static bool known(int64_t a, int64_t b)
{
    return a != PROF_UNKNOWN && b != PROF_UNKNOWN;
}

void timeline_say_states(const timeline_box *box, int64_t origin, char *text, size_t room)
{
    words w = {text, room, 0};
    if (box->count == 1)
        say(&w, "%s: ", bars_step[timeline_box_most(box)].name);
    else
        for (int i = 0; i < PROF_STATES; i++)
            if (box->of[i])
                say(&w, "%s %.3f ms, ", bars_step[i].name, ms(box->of[i]));
    say_when(&w, box, origin);
}

static void say_operation(words *w, const prof_run *run, const prof_record *r, const prof_operation *o, int64_t origin)
{
    const prof_comm *comm = r->comm >= 0 ? &run->comms[r->comm] : NULL;
    bool messages = r->kind == WEFT_TRACE_P2P;
    say(w, "\n%s, ", messages ? "messages" : weft_collective_string((weft_collective_kind)r->operation));
    say_bytes(w, r->bytes);
    if (comm)
        say(w, ", comm %s", comm->name);
    if (comm && comm->size > 0)
        say(w, " of %d", comm->size);
    say(w, "\n%.3f ms in line, %.3f waiting for the last rank, %.3f under way", ms(o->queue), ms(o->skew),
        ms(o->transfer));
    if (o->late >= 0 && o->late_by > 0)
        say(w, "\nrank %d came last, at %.3f ms", run->ranks[o->late].rank, ms(o->arrival - origin));
    if (known(r->wait, r->go))
        say(w, "\nits caller waited %.3f ms", ms(r->go - r->wait));
    if (r->result != WEFT_OK)
        say(w, "\n%s", r->result == WEFT_PENDING ? "had not ended" : weft_result_string(r->result));
}

const char *timeline_name(const prof_record *r, char text[TIMELINE_NAME])
{
    if (r->kind == WEFT_TRACE_SPAN)
        snprintf(text, TIMELINE_NAME, "%s %" PRIu64, prof_record_name(r), r->number);
    else
        snprintf(text, TIMELINE_NAME, "%s", prof_record_name(r));
    return text;
}

void timeline_say_records(const prof_split *split, int rank, const timeline_box *box, int64_t origin, char *text,
                          size_t room)
{
    const prof_record *records = split->run->ranks[rank].records, *first = &records[box->first];
    char name[TIMELINE_NAME];
    words w = {text, room, 0};
    if (box->count > 1)
        say(&w, "%zu, from %s ", box->count, timeline_name(first, name));
    say(&w, "%s%s: ", box->count > 1 ? "to " : "", timeline_name(&records[box->last], name));
    say_when(&w, box, origin);
    if (box->count == 1 && prof_is_operation(first))
        say_operation(&w, split->run, first, &split->ranks[rank].operations[box->first], origin);
}
