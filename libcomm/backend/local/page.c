/* SPDX-License-Identifier: Apache-2.0 */
/* Where the counters, slots, pipes and messages lie in the page of shared memory that a rank has for each comm. Staging
 * shrinks with the number of members, so that a comm's memory grows only linearly. */
#include "backend/local/page.h"

#define PIPES_BYTES ((size_t)1 << 20) /* of all pipes of a rank together, about */
#define PIPE_MIN    ((size_t)16 << 10)
#define PIPE_MAX    ((size_t)128 << 10)
#define MAIL_BYTES  ((size_t)32 << 10)

weft__page_layout weft__page_lay_out(int count, int channels, size_t slot_bytes)
{
    weft__page_layout l = {.count = count, .channels = channels, .slot_bytes = slot_bytes, .mail_bytes = MAIL_BYTES};
    size_t n = (size_t)count, lanes = n * (size_t)channels;
    l.pipe_bytes = PIPE_MAX;
    while (l.pipe_bytes > PIPE_MIN && l.pipe_bytes * n > PIPES_BYTES)
        l.pipe_bytes /= 2;
    l.pipe_stride = sizeof(weft__pipe_out) + l.pipe_bytes;
    l.mail_stride = sizeof(weft__mail_out) + l.mail_bytes;
    l.share_stride = weft__round_up(sizeof(weft__share) + n * sizeof(uint64_t), WEFT__LINE);
    l.shares = sizeof(weft__page);
    l.slots = l.shares + WEFT__AHEAD * l.share_stride;
    l.pipes_in = l.slots + WEFT__AHEAD * slot_bytes;
    l.mails_in = l.pipes_in + n * sizeof(weft__pipe_in);
    l.pipes_out = l.mails_in + lanes * sizeof(weft__mail_in);
    l.mails_out = l.pipes_out + n * l.pipe_stride;
    l.total = l.mails_out + lanes * l.mail_stride;
    return l;
}

static void *at(weft__page *page, size_t offset)
{
    return (unsigned char *)page + offset;
}

weft__pipe_out *weft__page_pipe_out(const weft__page_layout *l, weft__page *page, int peer)
{
    return at(page, l->pipes_out + (size_t)peer * l->pipe_stride);
}

weft__pipe_in *weft__page_pipe_in(const weft__page_layout *l, weft__page *page, int peer)
{
    return at(page, l->pipes_in + (size_t)peer * sizeof(weft__pipe_in));
}

static size_t lane(const weft__page_layout *l, int peer, uint32_t channel)
{
    return (size_t)peer * (size_t)l->channels + channel;
}

weft__mail_out *weft__page_mail_out(const weft__page_layout *l, weft__page *page, int peer, uint32_t channel)
{
    return at(page, l->mails_out + lane(l, peer, channel) * l->mail_stride);
}

weft__mail_in *weft__page_mail_in(const weft__page_layout *l, weft__page *page, int peer, uint32_t channel)
{
    return at(page, l->mails_in + lane(l, peer, channel) * sizeof(weft__mail_in));
}
