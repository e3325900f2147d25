/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the module of a device, and does for all devices what need not differ. */
#include "device/device.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "module.h"

#define TEXT(symbol)    TEXT_OF(symbol)
#define TEXT_OF(symbol) #symbol

typedef struct search {
    const char *name;
    const weft__device_calls *calls;
    char path[4200], why_not[256];                                     /* of the last that was found */
    void (*tell)(void *cookie, const char *path, const char *why_not); /* NULL: nobody asks for each */
    void *cookie;
} search;

static bool look_in(void *cookie, const char *folder)
{
    search *s = cookie;
    char path[4200];
    snprintf(path, sizeof path, "%s/libweft-%s.so", folder, s->name);
    if (access(path, F_OK) != 0)
        return false;
    memcpy(s->path, path, sizeof path);
    const char *why_not;
    weft__device_module_function *entry = NULL;
    *(void **)&entry = weft__module_load(path, TEXT(WEFT__DEVICE_MODULE), &why_not);
    const weft__device_calls *calls = entry ? entry() : NULL;
    if (calls && (calls->abi != WEFT__DEVICE_ABI || calls->size != sizeof *calls))
        why_not = "it is of another version of weft";
    if (!calls && !why_not)
        why_not = "it says that it cannot work here";
    if (s->tell)
        s->tell(s->cookie, path, why_not);
    if (why_not) {
        snprintf(s->why_not, sizeof s->why_not, "%s", why_not);
        return false;
    }
    s->calls = calls;
    return true;
}

static void look(search *s, const char *name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    s->name = name;
    pthread_mutex_lock(&lock);
    (void)weft__module_folders(look_in, s);
    pthread_mutex_unlock(&lock);
}

weft_result weft__device_find(const char *name, const weft__device_calls **calls_out)
{
    search s = {0};
    look(&s, name);
    *calls_out = s.calls;
    if (s.calls)
        return WEFT_OK;
    if (s.path[0])
        return weft__fail(WEFT_E_NO_DEVICE, "device %s: %.120s is left out: %.150s", name, s.path, s.why_not);
    return weft__fail(WEFT_E_NO_DEVICE,
                      "device %s: there is no libweft-%s.so beside weft's library or in WEFT_MODULE_PATH", name, name);
}

void weft__device_tell(const char *name, void (*tell)(void *cookie, const char *path, const char *why_not),
                       void *cookie)
{
    search s = {.tell = tell, .cookie = cookie};
    look(&s, name);
}

weft_result weft__device_fill(weft__device *device, void *dst, size_t count, weft_dtype dtype, double value,
                              weft_stream stream)
{
    uint64_t bits = 0;
    weft__vector_host()->fill(&bits, 1, dtype, value);
    return device->calls->fill(device, dst, count, weft_dtype_bytes(dtype), bits, stream);
}
