/* SPDX-License-Identifier: Apache-2.0 */
/* For debugging: the trainer sees pages of its own for each bucket, which cannot be read while the bucket is gathered.
 * Other ranks and weft itself only ever use the buffers. */
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "set.h"

static bool guarded(const weft__bucket *bucket)
{
    return bucket->view != bucket->params;
}

static size_t view_bytes(const weft__bucket *bucket)
{
    return weft__dtype_offset(bucket->elements, bucket->dtype);
}

weft_result weft__guard_make(weft_buckets *set)
{
    for (uint32_t i = 0; i < set->bucket_count; i++) {
        weft__bucket *bucket = &set->buckets[i];
        unsigned char *view = weft__map_pages(view_bytes(bucket));
        if (!view)
            return WEFT_E_NO_MEMORY;
        memcpy(view, bucket->params, view_bytes(bucket));
        bucket->view = view;
    }
    return WEFT_OK;
}

void weft__guard_release(weft_buckets *set)
{
    for (uint32_t i = 0; i < set->bucket_count; i++)
        if (guarded(&set->buckets[i]))
            weft__unmap_pages(set->buckets[i].view, view_bytes(&set->buckets[i]));
}

void weft__guard_close(const weft__bucket *bucket)
{
    if (!guarded(bucket))
        return;
    size_t start = weft__dtype_offset(bucket->shard_start, bucket->dtype);
    memcpy(bucket->params + start, bucket->view + start, weft__dtype_offset(bucket->shard_elements, bucket->dtype));
    (void)mprotect(bucket->view, view_bytes(bucket), PROT_NONE);
}

void weft__guard_open(const weft__bucket *bucket)
{
    if (!guarded(bucket))
        return;
    (void)mprotect(bucket->view, view_bytes(bucket), PROT_READ | PROT_WRITE);
    memcpy(bucket->view, bucket->params, view_bytes(bucket));
}
