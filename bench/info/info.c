/* SPDX-License-Identifier: Apache-2.0 */
/* `weft info`: what weft is here, and what a comm of these ranks would choose. */
#include <stdio.h>
#include <string.h>
#include <weft/info.h>
#include <weft/log.h>
#include <weft/version.h>
#include <weft/world.h>

#include "complain.h"
#include "gpu_module.h"
#include "json.h"
#include "option.h"
#include "out.h"
#include "subcommands.h"

static const char usage[] =
    "usage: weft info [options]\n\n"
    "Prints what weft is here: its version, modules found or left out, backends and what they can do, its variables\n"
    "in force, and the backend of a comm. Under a launcher that is about the ranks that it starts, and rank 0 prints:\n"
    "weft hosts --hosts 2 --ranks-per-host 2 -- weft info";

typedef struct info_options {
    int ranks;
    const char *json;
    int code;
} info_options;

#define FIELD(name) offsetof(info_options, name)

static const option table[] = {
    {"t|nthreads|n", OPTION_INT, FIELD(ranks), 1, 64, "N",
     "ranks are N threads of this process, not those of a launcher"},
    {"json", OPTION_FILE, FIELD(json), 0, 0, "FILE", "one JSON object; - = standard output, with nothing else"},
};

static const struct {
    const char *title, *key;
} kinds[] = {
    [WEFT_INFO_LIBRARY] = {"weft", "library"},
    [WEFT_INFO_MODULE] = {"modules", "modules"},
    [WEFT_INFO_BACKEND] = {"backends, for all ranks", "backends"},
    [WEFT_INFO_CHOICE] = {"a comm of ranks would choose", "choices"},
    [WEFT_INFO_VARIABLE] = {"variables (* = set)", "variables"},
    [WEFT_INFO_SETTING] = {"libraries below, and what they are set to", "settings"},
};

typedef struct printer {
    bool json;
    json_writer writer;
    int kind; /* of the last fact; -1: none yet */
} printer;

static void print_text(printer *p, const weft_info *fact)
{
    if ((int)fact->kind != p->kind)
        printf("%s%s\n", p->kind < 0 ? "" : "\n", kinds[fact->kind].title);
    bool is_set = fact->kind == WEFT_INFO_VARIABLE && !fact->is_default;
    printf("%s %-27s %s%s%s%s\n", is_set ? " *" : "  ", fact->name, fact->value, *fact->note ? "  (" : "", fact->note,
           *fact->note ? ")" : "");
}

static void print_json(printer *p, const weft_info *fact)
{
    if ((int)fact->kind != p->kind) {
        if (p->kind >= 0)
            json_close(&p->writer, ']');
        json_open(&p->writer, kinds[fact->kind].key, '[');
    }
    json_open(&p->writer, NULL, '{');
    json_put_text(&p->writer, "name", fact->name);
    json_put_text(&p->writer, "value", fact->value);
    json_put_text(&p->writer, "note", fact->note);
    if (fact->kind == WEFT_INFO_VARIABLE)
        json_put_bool(&p->writer, "is_set", !fact->is_default);
    json_close(&p->writer, '}');
}

static void print_fact(printer *p, const weft_info *fact)
{
    if (p->json)
        print_json(p, fact);
    else
        print_text(p, fact);
    p->kind = (int)fact->kind;
}

/* The library does not know of this one. */
static void print_gpt_module(printer *p)
{
    gpu_module m;
    bool loaded = gpu_module_find(&m);
    if (m.path[0])
        print_fact(p, &(weft_info){.kind = WEFT_INFO_MODULE,
                                   .name = m.path,
                                   .value = loaded ? "loaded" : "left out",
                                   .note = loaded ? "" : m.why_not});
}

static void visit(void *cookie, const weft_info *fact)
{
    printer *p = cookie;
    if (fact->kind > WEFT_INFO_MODULE && p->kind <= (int)WEFT_INFO_MODULE)
        print_gpt_module(p);
    print_fact(p, fact);
}

static weft_result tell_json(weft_world *world, info_options *o)
{
    printer p = {.json = true, .writer = {.out = out_open(o->json)}, .kind = -1};
    if (!p.writer.out) {
        o->code = out_complain(o->json);
        return WEFT_OK;
    }
    json_open(&p.writer, NULL, '{');
    weft_result result = weft_info_tell(world, visit, &p);
    if (p.kind >= 0)
        json_close(&p.writer, ']');
    json_close(&p.writer, '}');
    json_end_line(&p.writer);
    if (!out_close(p.writer.out))
        o->code = out_complain(o->json);
    return result;
}

static weft_result tell(weft_world *world, void *argument)
{
    info_options *o = argument;
    weft_result result = WEFT_OK;
    if (weft_world_rank(world) > 0)
        return WEFT_OK;
    if (o->json)
        result = tell_json(world, o);
    if (result != WEFT_OK || (o->json && strcmp(o->json, "-") == 0))
        return result;
    return weft_info_tell(world, visit, &(printer){.kind = -1});
}

/* What the log says of modules is printed anyway. */
static void nothing(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level, (void)line;
}

int command_info(int argc, char **argv)
{
    info_options options = {0};
    int rest, code = options_read(usage, table, sizeof table / sizeof *table, argc, argv, &options, &rest);
    if (code != OPTIONS_GO)
        return code;
    if (rest < argc)
        return complain(EXIT_USAGE, "info takes no '%s'", argv[rest]);
    weft_log_set(WEFT_LOG_ERROR, nothing, NULL);
    weft_result result =
        options.ranks ? weft_team_run(options.ranks, NULL, tell, &options) : weft_world_run(NULL, tell, &options);
    return result == WEFT_OK ? options.code : complain(EXIT_FAILED, "%s", weft_last_error());
}
