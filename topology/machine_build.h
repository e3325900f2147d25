/* SPDX-License-Identifier: Apache-2.0 */
/* How a machine is filled: a reader adds objects in depth-first order and closes each behind its last child; then the
 * rest follows from them (numbers, PU runs, islands, the order of the GPUs). */
#ifndef WEFT_TOPOLOGY_MACHINE_BUILD_H
#define WEFT_TOPOLOGY_MACHINE_BUILD_H
#include <weft/machine.h>

typedef struct weft__text weft__text; /* texts live as long as the machine */

struct weft_machine {
    weft_object *objects;
    int count, capacity;
    weft_links *links;
    int links_count;
    weft__text *texts;
    const char *source;
    const char **unseen;
    int unseen_count;
    int flat;
    weft_pus allowed;
    /* From here on made by weft__machine_finish(). */
    int *by_kind; /* objects, kind after kind */
    int first_of_kind[WEFT_OBJECT_KINDS + 1];
    uint64_t *gpu_mb_per_s; /* GPU x GPU */
    int *gpu_position;      /* place of each GPU when those with links are side by side */
    int islands;
};

/* Readers of machines. On failure the machine may be half filled; only weft_machine_close() may follow. */
weft_result weft__machine_read_flat(weft_machine *machine);
/* @p config has neither or one of xml and synthetic. WEFT_AGAIN: take a flat machine; the reason is among what was
 * not seen. */
weft_result weft__machine_read(weft_machine *machine, const weft_machine_config *config);

/* Begin an object below @p parent; *index_out is its number. Nothing but kind, parent and os_number (none) is set. */
weft_result weft__machine_begin(weft_machine *machine, weft_object_kind kind, int parent, int *index_out);
/* All that lies below object @p index has been added. */
void weft__machine_end(weft_machine *machine, int index);
/* Keep a text as long as the machine; "" for NULL. NULL after a message: no memory. */
const char *weft__machine_text(weft_machine *machine, const char *text);
/* Add a line to what could not be seen. */
weft_result weft__machine_unseen(weft_machine *machine, const char *format, ...) WEFT_PRINTF(2, 3);
/* Room for @p count more links of one kind, all zero. The reader fills objects (in const disguise) and bandwidths. */
weft_result weft__machine_add_links(weft_machine *machine, const char *name, int count, int **objects_out,
                                    uint64_t **mb_per_s_out);
/* Derive the rest. */
weft_result weft__machine_finish(weft_machine *machine);

/* links.c: bandwidths between GPUs, islands, and the order of the GPUs. */
weft_result weft__links_finish(weft_machine *machine);

/* nearness.c: how deep in the tree @p a and @p b part; the deeper, the nearer. 0: at the machine itself. */
int weft__near_depth(const weft_machine *machine, int a, int b);
/* Is it known where this device hangs? Not if it hangs on the machine itself and there are several places below. */
int weft__near_is_known(const weft_machine *machine, int device);

#endif
