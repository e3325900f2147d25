/* SPDX-License-Identifier: Apache-2.0 */
/* Rank groups against values made by Megatron Core: golden/ranks.tsv, rank_views.tsv, ranks_errors.jsonl. */
#include <stdlib.h>

#include <weft/groups.h>
#include <weft/log.h>

#include "grid.h"
#include "harness/golden.h"
#include "harness/json.h"
#include "harness/sha256.h"
#include "harness/test.h"

typedef struct tally {
    long ranks, layouts, groups, calls, deviations;
    char last_layout[256];
} tally;

static void quiet(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level, (void)line;
}

/* ---- ranks.tsv: every group of every layout, of the dense and of the expert generator */

enum {
    CFG,
    KIND,
    TP,
    EP,
    DP,
    PP,
    CP,
    ORDER_IN,
    ORDER_RESOLVED,
    RANK_OFFSET,
    TOKEN,
    N_GROUPS,
    GROUP_SIZE,
    SHA256,
    FULL,
    GROUPS,
    COLUMNS
};

static unsigned mask_of(const char *token)
{
    unsigned mask = 0;
    for (const char *at = token; *at; at += strcspn(at, "-"), at += *at == '-') {
        int dim = weft__grid_dim(at, strcspn(at, "-"));
        CHECK_MSG(dim >= 0, "what is the token '%s'?", token);
        mask |= 1u << dim;
    }
    return mask;
}

/* All groups as "0,1;2,3", every place with the offset added if that is positive. */
static char *groups_text(const weft__grid *grid, unsigned mask, int offset)
{
    int size = weft__grid_group_size(grid, mask), groups = grid->places / size;
    int *places = calloc((size_t)size, sizeof *places);
    size_t bytes = (size_t)grid->places * 12 + 1, used = 0;
    char *text = calloc(bytes, 1);
    CHECK(places && text);
    for (int g = 0; g < groups; g++) {
        weft__grid_group(grid, mask, g, places);
        for (int i = 0; i < size; i++)
            used += (size_t)snprintf(text + used, bytes - used, "%s%d",
                                     i   ? ","
                                     : g ? ";"
                                         : "",
                                     places[i] + (offset > 0 ? offset : 0));
    }
    free(places);
    return text;
}

/* Each place must be told the group and the member that the list says. */
static void check_inverse(const weft__grid *grid, unsigned mask)
{
    int size = weft__grid_group_size(grid, mask), groups = grid->places / size, index, member;
    int *places = calloc((size_t)size, sizeof *places);
    for (int g = 0; g < groups; g++) {
        weft__grid_group(grid, mask, g, places);
        for (int i = 0; i < size; i++) {
            weft__grid_group_of(grid, mask, places[i], &index, &member);
            CHECK_MSG(index == g && member == i, "place %d is member %d of group %d, not %d of %d", places[i], member,
                      index, i, g);
        }
    }
    free(places);
}

static void check_groups(char **f, const weft__grid *grid, tally *t)
{
    unsigned mask = mask_of(f[TOKEN]);
    int size = weft__grid_group_size(grid, mask);
    char *text = groups_text(grid, mask, atoi(f[RANK_OFFSET])), digest[65];
    CHECK_MSG(size == atoi(f[GROUP_SIZE]) && grid->places / size == atoi(f[N_GROUPS]),
              "cfg %s %s %s: %d groups of %d, not %s of %s", f[CFG], f[KIND], f[TOKEN], grid->places / size, size,
              f[N_GROUPS], f[GROUP_SIZE]);
    sha256_hex(text, strlen(text), digest);
    CHECK_MSG(strcmp(digest, f[SHA256]) == 0, "cfg %s %s %s: the digest of the groups differs", f[CFG], f[KIND],
              f[TOKEN]);
    if (atoi(f[FULL])) {
        CHECK_MSG(strcmp(text, f[GROUPS]) == 0, "cfg %s %s %s: groups are %.80s, not %.80s", f[CFG], f[KIND], f[TOKEN],
                  text, f[GROUPS]);
    } else {
        size_t shown = strlen(f[GROUPS]) - (strstr(f[GROUPS], "...") ? 3 : 0);
        CHECK_MSG(strncmp(text, f[GROUPS], shown) == 0, "cfg %s %s %s: groups begin with %.80s", f[CFG], f[KIND],
                  f[TOKEN], text);
    }
    check_inverse(grid, mask);
    t->groups += grid->places / size;
    free(text);
}

static void check_row(char *line, void *cookie)
{
    tally *t = cookie;
    char *f[COLUMNS], layout[256];
    weft__grid grid;
    CHECK_INT(split(line, '\t', f, COLUMNS), COLUMNS);
    if (strcmp(f[CFG], "cfg") == 0)
        return;
    const int sizes[WEFT__DIMS] = {[WEFT__TP] = atoi(f[TP]),
                                   [WEFT__EP] = atoi(f[EP]),
                                   [WEFT__DP] = atoi(f[DP]),
                                   [WEFT__PP] = atoi(f[PP]),
                                   [WEFT__CP] = atoi(f[CP])};
    CHECK_OK(weft__grid_make(f[ORDER_IN], sizes, weft__dim_names, &grid));
    CHECK_STR(grid.order, f[ORDER_RESOLVED]);
    check_groups(f, &grid, t);
    snprintf(layout, sizeof layout, "%s %s %s %s", f[CFG], f[KIND], f[ORDER_IN], f[RANK_OFFSET]);
    if (strcmp(layout, t->last_layout) != 0) {
        strcpy(t->last_layout, layout);
        t->layouts++;
        t->ranks += grid.places;
    }
}

/* ---- rank_views.tsv: the ten groups that one rank believes to be in */

/* Sizes by the names of Megatron's initialiser, as JSON; @p ignored = NULL, or the first name that the mesh lacks. */
static weft_mesh_config config_of(const json *args, const char **ignored)
{
    weft_mesh_config c = WEFT_MESH_CONFIG_INIT;
    struct {
        const char *name;
        int *field;
    } known[] = {{"tensor_model_parallel_size", &c.tp},
                 {"pipeline_model_parallel_size", &c.pp},
                 {"context_parallel_size", &c.cp},
                 {"expert_model_parallel_size", &c.ep},
                 {"expert_tensor_parallel_size", &c.etp}};
    *ignored = NULL;
    for (const json *a = args->first; a; a = a->next) {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strcmp(known[i].name, a->key) != 0)
            i++;
        if (json_is_null(a))
            continue;
        if (i < sizeof known / sizeof *known)
            *known[i].field = (int)json_int(a, -99);
        else if (strcmp(a->key, "order") == 0)
            c.order = json_text(a, NULL);
        else if (!*ignored)
            *ignored = a->key;
    }
    return c;
}

/* Options that change which comms Megatron makes besides, or nothing at all here: none of the ten groups. */
static void check_ignored(const char *name)
{
    static const char *const harmless[] = {"num_distributed_optimizer_instances", "create_gloo_process_groups",
                                           "hybrid_context_parallel", "hierarchical_context_parallel_sizes",
                                           "virtual_pipeline_model_parallel_size"};
    for (size_t i = 0; name && i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(harmless[i], name) == 0)
            return;
    CHECK_MSG(!name, "rank_views.tsv has the option '%s'", name);
}

static const struct {
    const char *column;
    const char *axes;
} views[] = {{"tp_ranks", "tp"},   {"pp_ranks", "pp"},      {"dp_ranks", "dp"}, {"dp_cp_ranks", "dp-cp"},
             {"cp_ranks", "cp"},   {"mp_ranks", "tp-pp"},   {"ep_ranks", "ep"}, {"etp_ranks", "etp"},
             {"edp_ranks", "edp"}, {"tp_dp_cp", "tp-dp-cp"}};

enum { VIEWS = sizeof views / sizeof *views, VIEW_COLUMNS_MAX = 32 };

static int view_columns[VIEWS]; /* where each is in the file */

static void find_view_columns(char **names, size_t count)
{
    for (size_t v = 0; v < VIEWS; v++) {
        size_t c = 0;
        while (c < count && strcmp(names[c], views[v].column) != 0)
            c++;
        CHECK_MSG(c < count, "rank_views.tsv lacks the column %s", views[v].column);
        view_columns[v] = (int)c;
    }
}

static void check_view(const weft_mesh *mesh, const char *axes_text, int rank, const char *want, const char *args)
{
    weft_axes axes;
    int index, member, ranks[64];
    char text[512], *end = text;
    CHECK_OK(weft_axes_parse(axes_text, &axes));
    CHECK(weft_mesh_size(mesh, axes) <= 64);
    CHECK_OK(weft_groups_of(mesh, NULL, axes, rank, &index, &member));
    CHECK_OK(weft_groups_ranks(mesh, NULL, axes, index, ranks));
    CHECK_INT(ranks[member], rank);
    for (int i = 0; i < weft_mesh_size(mesh, axes); i++)
        end += sprintf(end, "%s%d", i ? "," : "", ranks[i]);
    CHECK_MSG(strcmp(text, want) == 0, "%s: %s of rank %d are %s, not %s", args, axes_text, rank, text, want);
}

static void check_view_row(char *line, void *cookie)
{
    tally *t = cookie;
    char *f[VIEW_COLUMNS_MAX], message[128];
    const char *ignored;
    size_t count = split(line, '\t', f, VIEW_COLUMNS_MAX);
    if (strcmp(f[0], "world") == 0) {
        find_view_columns(f, count);
        return;
    }
    json *args = json_parse(f[1], message, sizeof message);
    CHECK_MSG(args, "%s: %s", f[1], message);
    weft_mesh_config config = config_of(args, &ignored);
    weft_mesh *mesh;
    check_ignored(ignored);
    CHECK_OK(weft_mesh_create(atoi(f[0]), &config, &mesh));
    for (size_t v = 0; v < VIEWS; v++)
        check_view(mesh, views[v].axes, atoi(f[2]), f[view_columns[v]], f[1]);
    weft_mesh_destroy(mesh);
    json_free(args);
    t->ranks++;
    t->groups += VIEWS;
}

/* ---- ranks_errors.jsonl: which calls are accepted and which refused */

static bool generator_accepts(const json *record, char **text)
{
    const json *args = json_get(record, "args");
    const char *token = json_text(json_get(record, "token"), NULL);
    weft__grid grid;
    int sizes[WEFT__DIMS];
    *text = NULL;
    for (int dim = 0; dim < WEFT__DIMS; dim++)
        sizes[dim] = (int)json_int(json_get(args, weft__dim_names[dim]), 1);
    if (weft__grid_make(json_text(json_get(args, "order"), NULL), sizes, weft__dim_names, &grid) != WEFT_OK)
        return false;
    const json *resolved = json_get(record, "order_resolved");
    if (resolved)
        CHECK_STR(grid.order, json_text(resolved, ""));
    if (!token)
        return true;
    weft_axes axes; /* the names of axes are those of the public call, in lower case */
    if (weft_axes_parse(token, &axes) != WEFT_OK)
        return false;
    *text = groups_text(&grid, mask_of(token), (int)json_int(json_get(args, "rank_offset"), 0));
    return true;
}

/* Why a call that the reference accepts is refused here: it went through by accident there. */
static const char *why_refused(void)
{
    static const struct {
        const char *said, *why;
    } accidents[] = {{" twice", "refused: an axis stands twice"},
                     {"not 1 or more", "refused: a size is zero"},
                     {"is not one of", "refused: an unknown axis"},
                     {"but there are", "refused: the sizes do not multiply to the ranks"}};
    for (size_t i = 0; i < sizeof accidents / sizeof *accidents; i++)
        if (strstr(weft_last_error(), accidents[i].said))
            return accidents[i].why;
    return NULL;
}

/* Why a call that the reference refuses is accepted here. */
static const char *why_accepted(const weft_mesh *mesh, const char *option)
{
    static char why[128];
    if (option) {
        snprintf(why, sizeof why, "accepted: the refusal is about %s, no part of a mesh", option);
        return why;
    }
    int last = mesh ? (int)strlen(weft_mesh_order(mesh)) - 2 : 0;
    if (mesh && weft_mesh_size(mesh, WEFT_AXIS_DP) != weft_mesh_size(mesh, WEFT_AXIS_EDP) &&
        strcmp(weft_mesh_order(mesh) + last, "pp") != 0)
        return "accepted: experts have the pipelines of the rest though the order does not end in pp";
    return NULL;
}

static void compare_call(const char *line, bool accepted, bool accepted_there, const char *why, tally *t)
{
    t->calls++;
    if (accepted == accepted_there)
        return;
    CHECK_MSG(why, "%s here: %.300s", accepted ? "accepted" : "refused", line);
    t->deviations++;
    test_note("deviation, %s: %.300s", why, line);
}

static void check_generator_call(const char *line, const json *record, bool accepted_there, tally *t)
{
    char *text;
    bool accepted = generator_accepts(record, &text);
    compare_call(line, accepted, accepted_there, accepted ? NULL : why_refused(), t);
    if (accepted && text && json_get(record, "groups"))
        CHECK_STR(text, json_text(json_get(record, "groups"), ""));
    free(text);
}

static void check_initialiser_call(const char *line, const json *record, bool accepted_there, tally *t)
{
    const char *option;
    weft_mesh *mesh;
    weft_mesh_config config = config_of(json_get(record, "args"), &option);
    bool accepted = weft_mesh_create((int)json_int(json_get(record, "world"), 1), &config, &mesh) == WEFT_OK;
    compare_call(line, accepted, accepted_there, accepted ? why_accepted(mesh, option) : why_refused(), t);
    weft_mesh_destroy(mesh);
}

static void check_call(char *line, void *cookie)
{
    tally *t = cookie;
    char message[128];
    json *record = json_parse(line, message, sizeof message);
    CHECK_MSG(record, "%s: %s", line, message);
    const char *call = json_text(json_get(record, "call"), "");
    bool accepted = strcmp(json_text(json_get(record, "result"), ""), "ok") == 0;
    if (strcmp(call, "RankGenerator") == 0)
        check_generator_call(line, record, accepted, t);
    else if (strcmp(call, "initialize_model_parallel") == 0)
        check_initialiser_call(line, record, accepted, t);
    else
        compare_call(line, true, accepted, "accepted: there is no global state to make twice", t);
    json_free(record);
}

TEST(groups_are_those_of_megatron)
{
    tally t = {0};
    weft_log_set(WEFT_LOG_ERROR, quiet, NULL);
    golden_lines("ranks.tsv", check_row, &t);
    golden_lines("rank_views.tsv", check_view_row, &t);
    golden_lines("ranks_errors.jsonl", check_call, &t);
    CHECK(t.layouts > 100 && t.groups > 10000);
    test_note("%ld ranks, %ld layouts, %ld groups, %ld calls were compared, %ld deviations", t.ranks, t.layouts,
              t.groups, t.calls, t.deviations);
}
