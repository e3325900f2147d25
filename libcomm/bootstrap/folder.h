/* SPDX-License-Identifier: Apache-2.0 */
/* Where rank 0 listens, told in a file of a folder that all hosts share. The file is the job's: its name and its text
 * hold the key; one that an earlier job of the same key has left is written over, and read anew at every attempt. */
#ifndef WEFT_BOOTSTRAP_FOLDER_H
#define WEFT_BOOTSTRAP_FOLDER_H
#include "bootstrap/endpoint.h"

#define WEFT__FOLDER_ENDPOINTS 16

weft_result weft__folder_publish(const char *folder, uint64_t key, const weft__endpoint *endpoints, int count);
/* How many are told; 0: none yet, and *why_out says why (static text). */
int weft__folder_read(const char *folder, uint64_t key, weft__endpoint endpoints[WEFT__FOLDER_ENDPOINTS],
                      const char **why_out);
void weft__folder_remove(const char *folder, uint64_t key);
/* What a file says, a zero behind it: whole files of this job only. */
int weft__folder_parse(const char *text, uint64_t key, weft__endpoint endpoints[WEFT__FOLDER_ENDPOINTS]);

#endif
