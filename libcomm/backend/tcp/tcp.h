/* SPDX-License-Identifier: Apache-2.0 */
/* TCP as a carrier: a connection for each pair of ranks, on which records follow each other. What is sent is written
 * from where it lies, what comes is read to where it belongs: only the kernel copies. */
#ifndef WEFT_TCP_TCP_H
#define WEFT_TCP_TCP_H
#include "backend/net/net.h"
#include "bootstrap/endpoint.h"
#include "bootstrap/guests.h"

/* Few calls for many bytes, but what was read is still in the core's cache when it is summed. */
#define WEFT__TCP_RECORD_BYTES ((size_t)4094 * 64)

#define WEFT__TCP_PLACES 24  /* at which a rank may be reached */
#define WEFT__TCP_AHEAD  960 /* read behind the record at hand: a small one is read at once */
#define WEFT__TCP_WHY    160

/* What members of a comm tell each other. Who knows the key belongs to this world. */
typedef struct weft__tcp_place {
    unsigned char address[16]; /* IPv4: the first four */
    uint32_t scope;
    uint8_t is_ipv6, reserved[3];
} weft__tcp_place;

typedef struct weft__tcp_card {
    uint64_t key;
    uint16_t port, places;
    uint32_t reserved;
    weft__tcp_place place[WEFT__TCP_PLACES]; /* best first */
} weft__tcp_card;

/* Of two ranks the one with the greater number connects. */
typedef enum weft__tcp_state {
    WEFT__TCP_UNKNOWN,
    WEFT__TCP_AWAITED,    /* it is going to connect */
    WEFT__TCP_CONNECTING, /* to the place at hand */
    WEFT__TCP_GREETING,   /* hello was said, the welcome is to come */
    WEFT__TCP_OPEN,
    WEFT__TCP_LOST,
} weft__tcp_state;

typedef struct weft__tcp weft__tcp;

/* The way to a rank, shared by the comms with it, and kept until the world is closed. */
typedef struct weft__tcp_way {
    weft__tcp *tcp;
    int rank, fd;
    weft__tcp_state state;
    bool wants_room;    /* its descriptor tells when there is room to write */
    int error;          /* that writing met; 0 = none */
    weft_result result; /* with which it was lost, */
    char why[WEFT__TCP_WHY];

    weft__tcp_card card; /* of the other, if it is to be connected to; */
    int attempt;         /* which place is tried, over and over, */
    uint64_t until_ns;   /* and for how long; without a descriptor: when it goes on */
    uint64_t round_ns;   /* when the next round through all places may begin, */
    uint64_t give_up_ns; /* and when there is none any more */
    bool silent;         /* in this round there was a place of which nothing was heard */
    bool wants;          /* the place at hand was not tried: this process lacked something */
    weft__welcome welcome;
    size_t heard; /* of it */

    weft__net_slot *first, *last; /* records to be written; */
    size_t written;               /* of the first */
    unsigned char *rest;          /* before them: of a record that was begun when its memory was taken back */
    size_t rest_bytes, rest_written;

    weft__net_head head; /* of the record that comes, */
    bool in_record;      /* if one has begun, */
    size_t come;         /* and what has come of it, behind the head */
    unsigned char text[WEFT__NET_TEXT_BYTES];
    unsigned char ahead[WEFT__TCP_AHEAD];
    size_t ahead_from, ahead_to; /* read, but not looked at */
} weft__tcp_way;

struct weft__tcp {
    weft__net *net;
    int epoll_fd, listener; /* the latter -1 until the first comm is made */
    weft__tcp_card card;
    weft__guests guests;
    uint64_t shut_ns;                /* the listener is not watched until then; 0 = it is */
    bool told_at_door, told_on_ways; /* of a want that still is */
    weft__tcp_way *ways;             /* [world size] */
    int unsettled;                   /* ways that are being made, */
    uint64_t look_ns;                /* and when the next look is due at who of them takes too long */
    int rests;                       /* ways with a rest */
    unsigned char *waste;            /* a record that nobody wants */
};

/* What an event is about. */
enum { WEFT__TCP_WAY, WEFT__TCP_LISTENER, WEFT__TCP_GUEST };
bool weft__tcp_watch(weft__tcp *tcp, int fd, uint32_t events, int kind, int index);
/* A socket is as the environment wants it; E_INVALID if it cannot be. */
weft_result weft__tcp_tune(int fd);
/* Nothing is heard of it any more, even if a child of this process still has it. */
void weft__tcp_close(weft__tcp *tcp, int fd);

/* door.c: listening, and who comes in */
weft_result weft__tcp_address(void *tcp, unsigned char *address, size_t room, size_t *bytes_out);
void weft__tcp_listen(weft__tcp *tcp);
void weft__tcp_listen_again(weft__tcp *tcp);
void weft__tcp_hear_guests(weft__tcp *tcp);
/* way.c: making and losing ways */
weft_result weft__tcp_reach(void *tcp, int rank, const unsigned char *address, size_t bytes);
weft_result weft__tcp_lost(void *tcp, int rank, const char **why_out);
/* With what a connection is lost that ended with that error: the other, or its host, has said so; or there was nothing
 * but silence. */
weft_result weft__tcp_result_of(int error);
/* It is connected: what waits may be sent. */
void weft__tcp_way_open(weft__tcp_way *way, int fd);
void weft__tcp_way_lose(weft__tcp_way *way, weft_result result, const char *why);
/* Its descriptor has something, before it is open. */
void weft__tcp_way_advance(weft__tcp_way *way);
/* Those that take too long. */
void weft__tcp_ways_tire(weft__tcp *tcp);
/* send.c */
void weft__tcp_send(void *tcp, int rank, weft__net_slot *slot);
void weft__tcp_drop(void *tcp, weft__net_comm *nc);
void weft__tcp_write(weft__tcp_way *way);
/* Give all records back. */
void weft__tcp_let_go(weft__tcp_way *way);
bool weft__tcp_has_to_send(const weft__tcp_way *way);
/* receive.c: what there is, for a turn. Not WEFT_OK: it is lost, *why_out. */
weft_result weft__tcp_read(weft__tcp_way *way, const char **why_out);

#endif
