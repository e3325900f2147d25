/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a machine with hwloc: this host, an XML file, or a synthetic description. */
#include <ctype.h>
#include <errno.h>
#include <hwloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/log.h"
#include "machine_build.h"

#define FILE_BYTES_MOST (64 << 20)
#define OBJECTS_MOST    (1 << 16) /* of a description */

typedef struct reading {
    weft_machine *machine;
    hwloc_topology_t topology;
    int pci_devices; /* how many were met, of any class */
} reading;

/* hwloc objects remember the object they became, for the matrices. */
static void remember(hwloc_obj_t object, int index)
{
    object->userdata = (void *)(intptr_t)(index + 1);
}

static int remembered(hwloc_obj_t object)
{
    return (int)(intptr_t)object->userdata - 1;
}

static weft_object_kind kind_of(hwloc_obj_type_t type)
{
    if (hwloc_obj_type_is_cache(type))
        return WEFT_OBJECT_CACHE;
    switch ((int)type) {
    case HWLOC_OBJ_MACHINE:
        return WEFT_OBJECT_MACHINE;
    case HWLOC_OBJ_PACKAGE:
        return WEFT_OBJECT_PACKAGE;
    case HWLOC_OBJ_NUMANODE:
        return WEFT_OBJECT_NUMA;
    case HWLOC_OBJ_CORE:
        return WEFT_OBJECT_CORE;
    case HWLOC_OBJ_PU:
        return WEFT_OBJECT_PU;
    default:
        return WEFT_OBJECT_GROUP;
    }
}

static const char *first_info(hwloc_obj_t object, const char *const *names)
{
    for (; *names; names++) {
        const char *value = hwloc_obj_get_info_by_name(object, *names);
        if (value && *value)
            return value;
    }
    return NULL;
}

static const char *model_of(hwloc_obj_t object)
{
    static const char *const package[] = {"CPUModel", NULL};
    static const char *const machine[] = {"DMIProductName", "PlatformModel", NULL};
    if (object->type == HWLOC_OBJ_PACKAGE)
        return first_info(object, package);
    return object->type == HWLOC_OBJ_MACHINE ? first_info(object, machine) : NULL;
}

static int is_allowed(const reading *r, hwloc_obj_t object)
{
    if (object->type == HWLOC_OBJ_NUMANODE)
        return hwloc_bitmap_isset(hwloc_topology_get_allowed_nodeset(r->topology), object->os_index);
    return object->cpuset && hwloc_bitmap_intersects(object->cpuset, hwloc_topology_get_allowed_cpuset(r->topology));
}

static weft_result begin(reading *r, hwloc_obj_t object, int parent, int *index)
{
    const char *model = weft__machine_text(r->machine, model_of(object));
    const char *name = weft__machine_text(r->machine, object->type == HWLOC_OBJ_GROUP ? object->subtype : NULL);
    if (!model || !name)
        return WEFT_E_NO_MEMORY;
    WEFT_TRY(weft__machine_begin(r->machine, kind_of(object->type), parent, index));
    weft_object *o = &r->machine->objects[*index];
    o->model = model;
    o->name = name;
    o->allowed = is_allowed(r, object);
    if (object->os_index != HWLOC_UNKNOWN_INDEX)
        o->os_number = (int)object->os_index;
    if (o->kind == WEFT_OBJECT_CACHE) {
        o->level = (int)object->attr->cache.depth;
        o->bytes = object->attr->cache.size;
    }
    if (o->kind == WEFT_OBJECT_NUMA)
        o->bytes = object->attr->numanode.local_memory;
    if (o->kind == WEFT_OBJECT_PU && o->allowed)
        weft_pus_add(&r->machine->allowed, o->os_number);
    remember(object, *index);
    return WEFT_OK;
}

/* Memory at this object, also behind a memory-side cache. The first node goes above the cores; others (another kind
 * of memory at the same place) stand beside them. */
static weft_result read_memory(reading *r, hwloc_obj_t object, int *inner, int *nodes)
{
    for (hwloc_obj_t m = object->memory_first_child; m; m = m->next_sibling) {
        if (m->type != HWLOC_OBJ_NUMANODE) {
            WEFT_TRY(read_memory(r, m, inner, nodes));
            continue;
        }
        int index;
        WEFT_TRY(begin(r, m, *inner, &index));
        if ((*nodes)++ == 0)
            *inner = index;
        else
            weft__machine_end(r->machine, index);
    }
    return WEFT_OK;
}

/* What a PCI device is for. */
enum purpose { OTHER, GPU, NIC, SWITCH };

enum { ANY_VENDOR = 0, NVIDIA = 0x10de, AMD = 0x1002 };

/* Drivers may be missing, so that a GPU is nothing but its PCI class. Plain display adapters (0300) are mostly the
 * management controller's; NVIDIA sells GPUs under that class, AMD as "other display" (0380). */
static const struct {
    unsigned class_id, vendor;
    enum purpose purpose;
} pci_classes[] = {
    {0x0302, ANY_VENDOR, GPU}, {0x0300, NVIDIA, GPU},     {0x0380, AMD, GPU},
    {0x1200, ANY_VENDOR, GPU}, {0x0200, ANY_VENDOR, NIC}, {0x0207, ANY_VENDOR, NIC},
};

/* How drivers name GPUs that compute, and how cards are found; "card0" is any screen. */
static const char *const gpu_names[] = {"nvml", "cuda", "rsmi", "ze", "opencl", NULL};

static int is_gpu_name(const char *name)
{
    for (const char *const *p = gpu_names; name && *p; p++)
        if (strncmp(name, *p, strlen(*p)) == 0)
            return 1;
    return 0;
}

static enum purpose purpose_of_driver(hwloc_obj_t os_device)
{
    hwloc_obj_osdev_type_t type = os_device->attr->osdev.type;
    if (type == HWLOC_OBJ_OSDEV_NETWORK || type == HWLOC_OBJ_OSDEV_OPENFABRICS)
        return NIC;
    return is_gpu_name(os_device->name) ? GPU : OTHER;
}

static enum purpose purpose_of_pci(hwloc_obj_t device)
{
    if (device->subtype && strcmp(device->subtype, "NVSwitch") == 0)
        return SWITCH;
    for (hwloc_obj_t o = device->io_first_child; o; o = o->next_sibling)
        if (o->type == HWLOC_OBJ_OS_DEVICE && purpose_of_driver(o) != OTHER)
            return purpose_of_driver(o);
    const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
    for (size_t i = 0; i < sizeof pci_classes / sizeof *pci_classes; i++)
        if (pci_classes[i].class_id == pci->class_id &&
            (pci_classes[i].vendor == ANY_VENDOR || pci_classes[i].vendor == pci->vendor_id))
            return pci_classes[i].purpose;
    return OTHER;
}

static weft_object_kind kind_of_purpose(enum purpose purpose)
{
    return purpose == GPU ? WEFT_OBJECT_GPU : purpose == NIC ? WEFT_OBJECT_NIC : WEFT_OBJECT_SWITCH;
}

/* Names of drivers that run one device, the most telling first: "nvml0 (cuda0)", "mlx5_0 (ib0)". */
static int name_rank(hwloc_obj_t os_device)
{
    if (os_device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
        return 0;
    if (os_device->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK)
        return 1;
    int rank = 0;
    while (gpu_names[rank] && strncmp(os_device->name, gpu_names[rank], strlen(gpu_names[rank])) != 0)
        rank++;
    return rank;
}

enum { NAME_RANKS = 8 };

static void join_names(hwloc_obj_t first, char *text, size_t bytes)
{
    size_t used = 0;
    int names = 0;
    *text = 0;
    for (int rank = 0; rank < NAME_RANKS; rank++)
        for (hwloc_obj_t o = first; o; o = o->next_sibling)
            if (o->type == HWLOC_OBJ_OS_DEVICE && o->name && purpose_of_driver(o) != OTHER && name_rank(o) == rank &&
                used + strlen(o->name) + 4 < bytes)
                used += (size_t)snprintf(text + used, bytes - used, "%s%s",
                                         names++ == 0 ? ""
                                         : names == 2 ? " ("
                                                      : ", ",
                                         o->name);
    if (names > 1)
        snprintf(text + used, bytes - used, ")");
}

/* The first answer of the device itself or of the drivers that run it. */
static const char *device_info(hwloc_obj_t device, const char *const *names)
{
    for (hwloc_obj_t o = device->io_first_child; o; o = o->next_sibling)
        if (first_info(o, names))
            return first_info(o, names);
    return first_info(device, names);
}

static weft_result describe_device(reading *r, hwloc_obj_t device, int index)
{
    static const char *const models[] = {"GPUModel", "PCIDevice", NULL};
    static const char *const uuids[] = {"NVIDIAUUID", "AMDUUID", "LevelZeroUUID", NULL};
    char name[160] = "", pci_id[32] = "";
    int is_pci = device->type == HWLOC_OBJ_PCI_DEVICE;
    if (is_pci) {
        const struct hwloc_pcidev_attr_s *p = &device->attr->pcidev;
        snprintf(pci_id, sizeof pci_id, "%04x:%02x:%02x.%01x", (unsigned)p->domain, p->bus, p->dev, p->func);
        join_names(device->io_first_child, name, sizeof name);
    } else
        snprintf(name, sizeof name, "%s", device->name ? device->name : "");
    weft_object o = r->machine->objects[index];
    o.name = weft__machine_text(r->machine, name);
    o.pci_id = weft__machine_text(r->machine, pci_id);
    o.model = weft__machine_text(r->machine, device_info(device, models));
    o.uuid = weft__machine_text(r->machine, device_info(device, uuids));
    if (!o.name || !o.pci_id || !o.model || !o.uuid)
        return WEFT_E_NO_MEMORY;
    for (hwloc_obj_t d = is_pci ? device->io_first_child : device; d; d = d->next_sibling) {
        o.rdma |= d->type == HWLOC_OBJ_OS_DEVICE && d->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
        if (!is_pci)
            break;
        remember(d, index);
    }
    r->machine->objects[index] = o;
    remember(device, index);
    return WEFT_OK;
}

static weft_result read_device(reading *r, hwloc_obj_t device, int parent, enum purpose purpose)
{
    int index;
    if (purpose == OTHER)
        return WEFT_OK;
    WEFT_TRY(weft__machine_begin(r->machine, kind_of_purpose(purpose), parent, &index));
    WEFT_TRY(describe_device(r, device, index));
    weft__machine_end(r->machine, index);
    return WEFT_OK;
}

static weft_result read_io(reading *r, hwloc_obj_t object, int parent);

/* A bridge that leads to nothing of interest is left out again. */
static weft_result read_bridge(reading *r, hwloc_obj_t bridge, int parent)
{
    int index;
    WEFT_TRY(weft__machine_begin(r->machine, WEFT_OBJECT_BRIDGE, parent, &index));
    WEFT_TRY(read_io(r, bridge, index));
    if (r->machine->count == index + 1)
        r->machine->count--;
    else
        weft__machine_end(r->machine, index);
    return WEFT_OK;
}

static weft_result read_io(reading *r, hwloc_obj_t object, int parent)
{
    for (hwloc_obj_t io = object->io_first_child; io; io = io->next_sibling) {
        r->pci_devices += io->type == HWLOC_OBJ_PCI_DEVICE;
        if (io->type == HWLOC_OBJ_BRIDGE)
            WEFT_TRY(read_bridge(r, io, parent));
        else if (io->type == HWLOC_OBJ_PCI_DEVICE)
            WEFT_TRY(read_device(r, io, parent, purpose_of_pci(io)));
        else if (io->type == HWLOC_OBJ_OS_DEVICE)
            WEFT_TRY(read_device(r, io, parent, purpose_of_driver(io)));
    }
    return WEFT_OK;
}

static weft_result read_object(reading *r, hwloc_obj_t object, int parent)
{
    int index, nodes = 0;
    WEFT_TRY(begin(r, object, parent, &index));
    int inner = index;
    WEFT_TRY(read_memory(r, object, &inner, &nodes));
    for (hwloc_obj_t child = object->first_child; child; child = child->next_sibling)
        WEFT_TRY(read_object(r, child, inner));
    WEFT_TRY(read_io(r, object, inner));
    if (inner != index)
        weft__machine_end(r->machine, inner);
    weft__machine_end(r->machine, index);
    return WEFT_OK;
}

/* Keep a matrix, without the objects that mean nothing here. */
static weft_result read_matrix(reading *r, const char *name, const struct hwloc_distances_s *matrix)
{
    int *objects, count = 0;
    uint64_t *mb_per_s;
    for (unsigned i = 0; i < matrix->nbobjs; i++)
        count += matrix->objs[i] && remembered(matrix->objs[i]) >= 0;
    WEFT_TRY(weft__machine_add_links(r->machine, name, count, &objects, &mb_per_s));
    for (unsigned i = 0, a = 0; i < matrix->nbobjs; i++) {
        if (!matrix->objs[i] || remembered(matrix->objs[i]) < 0)
            continue;
        objects[a] = remembered(matrix->objs[i]);
        for (unsigned j = 0, b = 0; j < matrix->nbobjs; j++)
            if (matrix->objs[j] && remembered(matrix->objs[j]) >= 0)
                mb_per_s[a * (unsigned)count + b++] = matrix->values[i * matrix->nbobjs + j];
        a++;
    }
    return WEFT_OK;
}

static weft_result read_links(reading *r)
{
    static const struct {
        const char *matrix, *name;
    } kinds[] = {{"NVLinkBandwidth", "NVLink"}, {"XGMIBandwidth", "XGMI"}, {"XeLinkBandwidth", "XeLink"}};
    weft_result result = WEFT_OK;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds && result == WEFT_OK; k++) {
        struct hwloc_distances_s *matrix;
        unsigned found = 1;
        if (hwloc_distances_get_by_name(r->topology, kinds[k].matrix, &found, &matrix, 0) != 0 || found == 0)
            continue;
        result = read_matrix(r, kinds[k].name, matrix);
        hwloc_distances_release(r->topology, matrix);
    }
    return result;
}

/* What the operating system knows to be there, but keeps from this process or from the file. */
static weft_result say_what_is_kept(const reading *r)
{
    int all = hwloc_bitmap_weight(hwloc_topology_get_complete_cpuset(r->topology));
    int kept = all - weft_pus_count(&r->machine->allowed);
    if (kept > 0)
        WEFT_TRY(weft__machine_unseen(r->machine, "%d of %d PUs: not allowed to this process", kept, all));
    all = hwloc_bitmap_weight(hwloc_topology_get_complete_nodeset(r->topology));
    kept = all;
    for (int i = 0; i < r->machine->count; i++)
        kept -= r->machine->objects[i].kind == WEFT_OBJECT_NUMA && r->machine->objects[i].allowed;
    if (kept > 0)
        WEFT_TRY(weft__machine_unseen(r->machine, "%d of %d NUMA nodes: not allowed to this process", kept, all));
    return r->pci_devices ? WEFT_OK
                          : weft__machine_unseen(r->machine, "PCI devices, so neither GPUs nor network cards");
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static weft_result read_topology(reading *r, const weft_machine_config *config)
{
    char source[512];
    WEFT_TRY(read_object(r, hwloc_get_root_obj(r->topology), WEFT_NONE));
    WEFT_TRY(read_links(r));
    if (config->xml)
        snprintf(source, sizeof source, "hwloc, file %s", file_name(config->xml));
    else if (config->synthetic)
        snprintf(source, sizeof source, "hwloc, synthetic %s", config->synthetic);
    else
        snprintf(source, sizeof source, "hwloc, this host");
    r->machine->source = weft__machine_text(r->machine, source);
    return r->machine->source ? say_what_is_kept(r) : WEFT_E_NO_MEMORY;
}

static weft_result refused(weft_machine *machine, const char *what)
{
    const char *why = strerror(errno);
    WEFT_TRY(weft__machine_unseen(machine, "%s: hwloc refused it (%s)", what, why));
    weft__log(WEFT_LOG_WARN, "the machine is taken as flat: hwloc refused %s (%s)", what, why);
    return WEFT_AGAIN;
}

static weft_result check_file(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return weft__fail(WEFT_E_NOT_FOUND, "cannot read machine file '%s': %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return weft__fail(WEFT_E_INVALID, "cannot read machine file '%s': it is %s", path,
                          S_ISDIR(status.st_mode) ? "a folder" : "no file");
    if (status.st_size > FILE_BYTES_MOST)
        return weft__fail(WEFT_E_INVALID, "cannot read machine file '%s': %lld bytes are no machine", path,
                          (long long)status.st_size);
    FILE *file = fopen(path, "r");
    if (!file)
        return weft__fail(WEFT_E_INVALID, "cannot read machine file '%s': %s", path, strerror(errno));
    fclose(file);
    return WEFT_OK;
}

/* The numbers of a description multiply; hwloc would make as many objects, however long that takes. */
static bool is_too_large(const char *synthetic)
{
    unsigned long objects = 1;
    for (const char *at = synthetic; *at && objects <= OBJECTS_MOST;) {
        bool named = at > synthetic && isalnum((unsigned char)at[-1]); /* the digit of "L2" */
        const char *closed = *at == '(' ? strchr(at, ')') : NULL;      /* attributes */
        if (isdigit((unsigned char)*at) && !named) {
            char *end;
            unsigned long count = strtoul(at, &end, 10);
            objects = count > OBJECTS_MOST ? count : objects * (count ? count : 1);
            at = end;
        } else {
            at = closed ? closed : at + 1;
        }
    }
    return objects > OBJECTS_MOST;
}

/* hwloc wants a description to end in PUs; one a core is meant where it does not. */
static weft_result describe(hwloc_topology_t topology, const char *synthetic)
{
    char with_pus[1024];
    if (is_too_large(synthetic))
        return weft__fail(WEFT_E_RANGE, "a machine '%s' has more than %d parts", synthetic, OBJECTS_MOST);
    if (hwloc_topology_set_synthetic(topology, synthetic) == 0)
        return WEFT_OK;
    if (snprintf(with_pus, sizeof with_pus, "%s pu:1", synthetic) < (int)sizeof with_pus &&
        hwloc_topology_set_synthetic(topology, with_pus) == 0)
        return WEFT_OK;
    return weft__fail(WEFT_E_INVALID, "hwloc does not understand the machine '%s'", synthetic);
}

static weft_result choose_source(weft_machine *machine, hwloc_topology_t topology, const weft_machine_config *config)
{
    if (config->xml) {
        WEFT_TRY(check_file(config->xml));
        return hwloc_topology_set_xml(topology, config->xml) == 0 ? WEFT_OK : refused(machine, config->xml);
    }
    return config->synthetic ? describe(topology, config->synthetic) : WEFT_OK;
}

/* All of the machine, also what this process may not use: then its parts have the same numbers in every process of the
 * host, whatever part of it each is kept to. Of hwloc's components, those that would start a GPU runtime (which a
 * later fork would not survive) or open a display are left out; NVML, RSMI and PCI tell all that is needed. */
static int set_up(hwloc_topology_t topology)
{
    static const char *const starters[] = {"cuda", "opencl", "gl", "levelzero"};
    for (size_t i = 0; i < sizeof starters / sizeof *starters; i++) /* one that is not installed is no failure */
        (void)hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, starters[i]);
    return hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) == 0 &&
                   hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) == 0
               ? 0
               : -1;
}

static weft_result read_with_hwloc(weft_machine *machine, const weft_machine_config *config)
{
    reading r = {.machine = machine};
    const char *what = config->xml ? config->xml : config->synthetic ? config->synthetic : "this host";
    if (hwloc_topology_init(&r.topology) != 0)
        return refused(machine, what);
    weft_result result = set_up(r.topology) == 0 ? WEFT_OK : refused(machine, what);
    if (result == WEFT_OK)
        result = choose_source(machine, r.topology, config);
    if (result == WEFT_OK && hwloc_topology_load(r.topology) != 0)
        result = refused(machine, what);
    if (result == WEFT_OK)
        result = read_topology(&r, config);
    hwloc_topology_destroy(r.topology);
    return result;
}

/* One thread at a time: libraries below hwloc (udev) set themselves up without a lock. */
weft_result weft__machine_read(weft_machine *machine, const weft_machine_config *config)
{
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one_at_a_time);
    weft_result result = read_with_hwloc(machine, config);
    pthread_mutex_unlock(&one_at_a_time);
    return result;
}
