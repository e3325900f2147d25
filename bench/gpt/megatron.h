/* SPDX-License-Identifier: Apache-2.0 */
/* How an index of Megatron begins: the magic bytes, u64 version, u8 code of the type, u64 number of sequences, u64
 * number of borders of documents (one more than documents). Then come an i32 length for each sequence, an i64 offset
 * in bytes for each, and for each border the i64 number of a sequence. */
#ifndef WEFT_BENCH_GPT_MEGATRON_H
#define WEFT_BENCH_GPT_MEGATRON_H

#define GPT_MEGATRON_MAGIC "MMIDIDX\0\0" /* 9 bytes: without the zero that ends the literal */
enum { GPT_MEGATRON_VERSION = 1, GPT_MEGATRON_HEADER = 9 + 8 + 1 + 8 + 8 };

#endif
