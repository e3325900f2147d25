/* SPDX-License-Identifier: Apache-2.0 */
/** @file  The machine: what one host is made of, as plain data. Packages, NUMA nodes, caches, cores and processing
 *         units (PUs) are a tree; GPUs and network cards hang in it where their PCI buses do; links between GPUs are
 *         matrices. What could not be seen is said and never guessed. */
#ifndef WEFT_MACHINE_H
#define WEFT_MACHINE_H
#include <weft/result.h>
WEFT_BEGIN_DECLS

#define WEFT_PUS_MAX 8192 /**< PUs of a host have operating system numbers below this. */

/** A set of PUs by the numbers of the operating system, laid out as sched_setaffinity() wants it. */
typedef struct weft_pus {
    uint64_t words[WEFT_PUS_MAX / 64]; /**< PU n is bit n % 64 of word n / 64. */
} weft_pus;

/** Add @p pu; a number outside 0 ... WEFT_PUS_MAX - 1 is left out. Threads: owner. Blocks: never. */
WEFT_API void weft_pus_add(weft_pus *pus, int pu);
/** 1 if @p pu is in the set, else 0. Threads: any. Blocks: never. */
WEFT_API int weft_pus_has(const weft_pus *pus, int pu);
/** How many are in the set. Threads: any. Blocks: never. */
WEFT_API int weft_pus_count(const weft_pus *pus);
/** Write the set as "0-3,8" into @p text, cut at @p bytes with "..." at its end; returns @p text.
 *  Threads: any.  Blocks: never. */
WEFT_API char *weft_pus_text(const weft_pus *pus, char *text, size_t bytes);
/** The PUs that the calling thread may run on.
 *  Threads: any.  Blocks: never.  Errors: E_SYSTEM. */
WEFT_API WEFT_NODISCARD weft_result weft_pus_of_thread(weft_pus *pus_out);

typedef enum weft_object_kind {
    WEFT_OBJECT_MACHINE = 0, /**< The host: the first object, above all others. */
    WEFT_OBJECT_PACKAGE = 1,
    WEFT_OBJECT_GROUP = 2, /**< Packages or caches that lie near each other: a die, a blade. */
    WEFT_OBJECT_NUMA = 3,  /**< Memory, above the cores it is local to. */
    WEFT_OBJECT_CACHE = 4,
    WEFT_OBJECT_CORE = 5,
    WEFT_OBJECT_PU = 6,
    WEFT_OBJECT_BRIDGE = 7, /**< A PCI bridge or switch. */
    WEFT_OBJECT_GPU = 8,
    WEFT_OBJECT_NIC = 9,
    WEFT_OBJECT_SWITCH = 10 /**< A switch for GPU links, such as an NVSwitch. */
} weft_object_kind;
#define WEFT_OBJECT_KINDS 11 /**< How many there are. */

/** "machine", "package", ...; "?" for what is none. Static text. Threads: any. Blocks: never. */
WEFT_API const char *weft_object_string(weft_object_kind kind);

/* What a number is when it is none. */
#define WEFT_NONE    (-1) /**< The machine has no such thing there. */
#define WEFT_UNKNOWN (-2) /**< It could not be seen. */
#define WEFT_SPREAD  (-3) /**< More than one. */

/** A part of the machine. Objects are numbered in depth-first order: what lies below object i are the objects from
 *  i + 1 up to, not including, `end`. Texts are never NULL; "" is unknown. */
typedef struct weft_object {
    weft_object_kind kind;
    int number;         /**< Among its kind, from 0, in depth-first order. */
    int os_number;      /**< Of the operating system; WEFT_NONE = it gives none. */
    int parent;         /**< The object right above; WEFT_NONE for the machine. */
    int end;            /**< The object behind the last one below. */
    int first_pu;       /**< The PUs below, or for a device those near it: numbers of PU objects, */
    int pu_count;       /**< so many from the first. */
    int allowed;        /**< PU, NUMA: 1 if this process may use it. Others: 1 if it may use a PU below or near. */
    int level;          /**< CACHE: 1, 2, 3. */
    int island;         /**< GPU: the link island it is in; WEFT_NONE = it has no links. */
    int rdma;           /**< NIC: 1 if it moves memory by itself (InfiniBand, RoCE), else 0. */
    uint64_t bytes;     /**< CACHE: size. NUMA: memory; 0 = unknown. */
    const char *name;   /**< GPU, NIC: of the driver, as "nvml0" or "mlx5_0 (ib0)". GROUP: what it is. */
    const char *model;  /**< PACKAGE, GPU, NIC: what was bought. MACHINE: the product. */
    const char *pci_id; /**< Devices and bridges: "0000:34:00.0". */
    const char *uuid;   /**< GPU: "GPU-...". */
} weft_object;

/** Bandwidths of links between GPUs, and of GPUs with switches and packages. */
typedef struct weft_links {
    const char *name;         /**< "NVLink", "XGMI", "XeLink". */
    int count;                /**< How many objects they join. */
    const int *objects;       /**< Those objects. */
    const uint64_t *mb_per_s; /**< From objects[i] to objects[j] at i * count + j; 0 = no link; nothing for i == j. */
} weft_links;

typedef struct weft_machine weft_machine; /**< One host, read once; it does not change. */

typedef struct weft_machine_config {
    size_t size;           /**< Set by WEFT_MACHINE_CONFIG_INIT. */
    const char *xml;       /**< Copied. Read this hwloc XML file; NULL = do not. */
    const char *synthetic; /**< Copied. Take this hwloc description, "package:2 core:4"; NULL = do not. */
    uint32_t flags;        /**< 0. */
    uint32_t reserved;     /**< 0. */
} weft_machine_config;
#define WEFT_MACHINE_CONFIG_INIT WEFT_SIZED_INIT(weft_machine_config)

/** Read a machine: this host, or the one that @p config describes. It is read whole, so that its parts have the same
 *  numbers in every process, and what this process may not use is marked. What hwloc refuses is replaced by a flat
 *  machine, the PUs of this process and nothing else, with a warning; so is everything where weft was built without
 *  hwloc. weft_machine_unseen() then says why.
 *  @param config  copied; NULL = this host.   @param machine_out  given, release with weft_machine_close().
 *  Threads: any.  Blocks: local.
 *  Errors: E_INVALID, E_NOT_FOUND (no such file), E_NO_MEMORY, E_SYSTEM, E_UNSUPPORTED (xml or synthetic without
 *  hwloc). */
WEFT_API WEFT_NODISCARD weft_result weft_machine_open(const weft_machine_config *config, weft_machine **machine_out);
/** Give the machine back; NULL is fine. Threads: owner. Blocks: local. */
WEFT_API void weft_machine_close(weft_machine *machine);

/** The PUs that this process may use; never empty. Borrowed: as long as the machine. Threads: any. Blocks: never. */
WEFT_API const weft_pus *weft_machine_allowed(const weft_machine *machine);
/** Where the data is from, as "hwloc, this host". Borrowed: as long as the machine.
 *  Threads: any.  Blocks: never. */
WEFT_API const char *weft_machine_source(const weft_machine *machine);
/** 1 if all that is known are PUs, else 0. Threads: any. Blocks: never. */
WEFT_API int weft_machine_is_flat(const weft_machine *machine);
/** What could not be seen, line @p index from 0; NULL behind the last. Borrowed: as long as the machine.
 *  Threads: any.  Blocks: never. */
WEFT_API const char *weft_machine_unseen(const weft_machine *machine, int index);
/** Object @p index; NULL if there is none. Borrowed: as long as the machine. Threads: any. Blocks: never. */
WEFT_API const weft_object *weft_machine_object(const weft_machine *machine, int index);
/** How many objects of @p kind there are. Threads: any. Blocks: never. */
WEFT_API int weft_machine_count(const weft_machine *machine, weft_object_kind kind);
/** The object that is number @p number of @p kind; WEFT_NONE if there is none. Threads: any. Blocks: never. */
WEFT_API int weft_machine_find(const weft_machine *machine, weft_object_kind kind, int number);
/** The GPU with this UUID, PCI id (with or without its domain) or driver name; WEFT_NONE if there is none.
 *  Threads: any.  Blocks: never. */
WEFT_API int weft_machine_find_gpu(const weft_machine *machine, const char *id);
/** The nearest object of @p kind above @p object, or @p object itself; WEFT_NONE if there is none.
 *  Threads: any.  Blocks: never. */
WEFT_API int weft_machine_above(const weft_machine *machine, int object, weft_object_kind kind);
/** The links of one kind, from 0; NULL behind the last. Borrowed: as long as the machine.
 *  Threads: any.  Blocks: never. */
WEFT_API const weft_links *weft_machine_links(const weft_machine *machine, int index);
/** How fast the GPUs with these numbers reach each other over links, in MB/s: their direct links and the way through
 *  each switch that both are on. 0 = not at all, or over switches whose links to each other are not reported.
 *  Threads: any.  Blocks: never. */
WEFT_API uint64_t weft_machine_gpu_mb_per_s(const weft_machine *machine, int gpu, int other);
/** How many link islands there are: sets of GPUs that reach each other over links. Threads: any. Blocks: never. */
WEFT_API int weft_machine_islands(const weft_machine *machine);

/** The cores that this process may use, from 0; PUs that belong to no core count as cores. An object; WEFT_NONE behind
 *  the last.  Threads: any.  Blocks: never. */
WEFT_API int weft_machine_core(const weft_machine *machine, int index);

/** What lies near an object. */
typedef struct weft_near {
    int numa;     /**< Object: the memory to use; WEFT_NONE = none is known to be near. */
    int nic;      /**< Object: the network card to use, RDMA before others; GPUs equally near take turns. */
    weft_pus pus; /**< The PUs to run on: never empty. */
} weft_near;
/** Which memory, network card and PUs to use with @p object (a GPU, a core, a PU). If no allowed PU is near it, `pus`
 *  are all that are allowed, and a warning says so once.
 *  Threads: any.  Blocks: never.  Errors: E_INVALID, E_RANGE. */
WEFT_API WEFT_NODISCARD weft_result weft_machine_near(const weft_machine *machine, int object, weft_near *near_out);

#define WEFT_HOST_NAME_MAX 63 /**< Longest name of a host that is kept, in bytes. */
#define WEFT_GPU_ID_MAX    63 /**< Longest identity of a GPU that is kept, in bytes. */

/** Where a rank runs: all that others must know to place it. Numbers are those of its own host's machine, or
 *  WEFT_NONE, WEFT_UNKNOWN, WEFT_SPREAD. Plain data: ranks may hand it around as bytes. */
typedef struct weft_location {
    int32_t host;     /**< Ranks with equal numbers share a host. */
    int32_t position; /**< In the order of the machine: depth-first for PUs; for GPUs those with links side by side. */
    int32_t gpu;      /**< Number of its GPU. */
    int32_t cache;    /**< Its outermost cache. */
    int32_t numa;     /**< Its NUMA node. */
    int32_t package;  /**< Its package. */
    int32_t island;   /**< The link island of its GPU. */
    int32_t reserved; /**< 0. */

    char host_name[WEFT_HOST_NAME_MAX + 1]; /**< For people; "" = none. Never compared: names repeat. */
    char gpu_id[WEFT_GPU_ID_MAX + 1]; /**< UUID or PCI id of its GPU, which no other rank may have; "" = no GPU. */
    weft_pus pus;                     /**< Where it may run; empty = not known. */
} weft_location;
/** A rank of which nothing is known but its host. */
/* clang-format off */
#define WEFT_LOCATION_INIT(host) \
    { host, WEFT_UNKNOWN, WEFT_NONE, WEFT_UNKNOWN, WEFT_UNKNOWN, WEFT_UNKNOWN, WEFT_NONE, 0, {0}, {0}, {{0}} }
/* clang-format on */

/** Describe a rank that runs on @p pus and drives @p gpu, on host 0 without a name.
 *  @param pus  NULL = those the calling thread may run on.   @param gpu  an object; WEFT_NONE = it drives none.
 *  Threads: any.  Blocks: never.  Errors: E_INVALID, E_RANGE (not a GPU), E_SYSTEM. */
WEFT_API WEFT_NODISCARD weft_result weft_machine_locate(const weft_machine *machine, const weft_pus *pus, int gpu,
                                                        weft_location *location_out);
/** Say which host each of @p count ranks is on, by name: equal names are one host.
 *  Threads: owner.  Blocks: never. */
WEFT_API void weft_location_name_hosts(weft_location *locations, const char *const *names, int count);

WEFT_END_DECLS
#endif
