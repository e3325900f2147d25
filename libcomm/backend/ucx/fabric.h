/* SPDX-License-Identifier: Apache-2.0 */
/* Is there a fabric? UCX tells of what it has found in a text alone (ucp_context_print_info()), a line for each:
 *
 *     #            resource 3  :  md 4  dev 2  flags -- rc_mlx5/mlx5_0:1
 *
 * UCX is not needed to read it. */
#ifndef WEFT_UCX_FABRIC_H
#define WEFT_UCX_FABRIC_H
#include <stdbool.h>
#include <stddef.h>

/* Is there a resource with a transport of a fabric (InfiniBand, RoCE, or the like)? @p name_out: the first one, as
 * "rc_mlx5/mlx5_0:1", cut at @p bytes; "" if there is none. */
bool weft__ucx_fabric_in(const char *info, char *name_out, size_t bytes);

#endif
