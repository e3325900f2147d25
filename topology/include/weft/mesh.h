/* SPDX-License-Identifier: Apache-2.0 */
/** @file  The mesh: which coordinates every place has on the axes of parallelism, and the groups along them. Groups
 *         are those of Megatron Core: the leftmost token of the order is innermost, so its groups are runs of
 *         neighbouring places. Two grids lie over the same places: the dense one (tp, cp, dp, pp) and, for the experts
 *         of a mixture, (etp, ep, edp, pp) in the same order, where etp stands for tp and edp for dp.
 *
 *  Pure arithmetic on places; nothing here knows of ranks, hosts or machines. */
#ifndef WEFT_MESH_H
#define WEFT_MESH_H
#include <weft/result.h>
WEFT_BEGIN_DECLS

/** A set of axes. The groups along {tp} hold the places that differ in tp alone; along {dp, cp}, in dp and cp. All
 *  axes of a set must belong to one grid; pp is in both. */
typedef uint32_t weft_axes;
enum {
    WEFT_AXIS_TP = 1,   /**< Tensor parallel. */
    WEFT_AXIS_CP = 2,   /**< Context parallel. */
    WEFT_AXIS_DP = 4,   /**< Data parallel, without cp. */
    WEFT_AXIS_PP = 8,   /**< Pipeline parallel. */
    WEFT_AXIS_EP = 16,  /**< Expert parallel. */
    WEFT_AXIS_ETP = 32, /**< Tensor parallel inside an expert. */
    WEFT_AXIS_EDP = 64  /**< Data parallel of experts. */
};
#define WEFT_AXES_TEXT_MAX 22 /**< Longest text of a set of axes, in bytes. */

/** Read "dp-cp" or "ep". Order does not matter; an unknown, repeated or missing name is an error.
 *  Threads: any.  Blocks: never.  Errors: E_INVALID. */
WEFT_API WEFT_NODISCARD weft_result weft_axes_parse(const char *text, weft_axes *axes_out);
/** Write @p axes as "dp-cp" into @p text of WEFT_AXES_TEXT_MAX + 1 bytes; returns @p text.
 *  Threads: any.  Blocks: never. */
WEFT_API char *weft_axes_text(weft_axes axes, char *text);

#define WEFT_MESH_REST (-1) /**< A size that follows from the others. */

typedef struct weft_mesh_config {
    size_t size;       /**< Set by WEFT_MESH_CONFIG_INIT. */
    const char *order; /**< Copied. Axes from the innermost to the outermost; NULL = "tp-cp-ep-dp-pp". Axes of size 1
                            may be left out. */
    int tp, cp, pp;    /**< From 1; zero is an error. */
    int dp;            /**< From 1, or WEFT_MESH_REST: places / (tp * cp * pp). */
    int ep;            /**< From 1. */
    int etp;           /**< From 1, or WEFT_MESH_REST: tp. */
    uint32_t flags;    /**< 0. */
} weft_mesh_config;
/** All sizes 1, dp the rest. */
#define WEFT_MESH_CONFIG_INIT                                                         \
    {                                                                                 \
        sizeof(weft_mesh_config), NULL, 1, 1, 1, WEFT_MESH_REST, 1, WEFT_MESH_REST, 0 \
    }

typedef struct weft_mesh weft_mesh; /**< The axes over a number of places; it does not change. */

/** Lay the axes over @p places places.
 *  @param config  copied; NULL = data parallel alone.   @param mesh_out  given, release with weft_mesh_destroy().
 *  Threads: any.  Blocks: never.
 *  Errors: E_INVALID (an order with an unknown, repeated or missing axis; a size below 1; sizes whose product is not
 *  the number of places, or does not divide it: prints the product; pipelines of experts that are not those of the
 *  rest), E_NO_MEMORY. */
WEFT_API WEFT_NODISCARD weft_result weft_mesh_create(int places, const weft_mesh_config *config, weft_mesh **mesh_out);
/** Give the mesh back; NULL is fine. Threads: owner. Blocks: local. */
WEFT_API void weft_mesh_destroy(weft_mesh *mesh);

/** How many places there are. Threads: any. Blocks: never. */
WEFT_API int weft_mesh_places(const weft_mesh *mesh);
/** The order in full: lower case, axes that were left out appended. Borrowed: as long as the mesh.
 *  Threads: any.  Blocks: never. */
WEFT_API const char *weft_mesh_order(const weft_mesh *mesh);
/** How many places a group along @p axes has: the product of the sizes; 0 if the axes are of no one grid.
 *  Threads: any.  Blocks: never. */
WEFT_API int weft_mesh_size(const weft_mesh *mesh, weft_axes axes);
/** How many groups along @p axes there are; 0 if the axes are of no one grid. Threads: any. Blocks: never. */
WEFT_API int weft_mesh_groups(const weft_mesh *mesh, weft_axes axes);

/** Position on every axis, from 0. */
typedef struct weft_coordinates {
    int tp, cp, dp, pp; /**< The dense grid. */
    int etp, ep, edp;   /**< The grid of experts; its pp is the same. */
} weft_coordinates;
/** Where @p place is. Threads: any. Blocks: never. Errors: E_RANGE. */
WEFT_API WEFT_NODISCARD weft_result weft_mesh_coordinates(const weft_mesh *mesh, int place,
                                                          weft_coordinates *coordinates_out);
/** Which place has these tp, cp, dp and pp; the others are not read. Threads: any. Blocks: never. Errors: E_RANGE. */
WEFT_API WEFT_NODISCARD weft_result weft_mesh_place(const weft_mesh *mesh, const weft_coordinates *coordinates,
                                                    int *place_out);

/** The members of group @p index along @p axes: weft_mesh_size() places into @p places_out.
 *  Threads: any.  Blocks: never.  Errors: E_INVALID (axes of no one grid), E_RANGE. */
WEFT_API WEFT_NODISCARD weft_result weft_mesh_group(const weft_mesh *mesh, weft_axes axes, int index, int *places_out);
/** The group along @p axes that @p place is in, and which of its members it is (NULL = not wanted).
 *  Threads: any.  Blocks: never.  Errors: E_INVALID (axes of no one grid), E_RANGE. */
WEFT_API WEFT_NODISCARD weft_result weft_mesh_group_of(const weft_mesh *mesh, weft_axes axes, int place, int *index_out,
                                                       int *member_out);

WEFT_END_DECLS
#endif
