/* SPDX-License-Identifier: Apache-2.0 */
/* Token files of another writer are read back equal; damaged ones are named, and harm nothing. */
#include "gpt/tokens.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpt/random.h"
#include "harness/test.h"

/* ---- files ---- */

static char folder[32];

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/test_gpt_tokens.XXXXXX");
    CHECK(mkdtemp(folder));
}

static const char *in_folder(const char *name)
{
    static char paths[8][64];
    static int used;
    char *path = paths[used++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void remove_folder(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(system(command) == 0);
}

static void put(const char *path, const unsigned char *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
}

static size_t get(const char *path, unsigned char *bytes, size_t room)
{
    FILE *file = fopen(path, "rb");
    CHECK(file);
    size_t count = fread(bytes, 1, room, file);
    CHECK(count < room && fclose(file) == 0);
    return count;
}

/* Have the writer in Python write. */
static void write_tokens(const char *arguments)
{
    char command[1024];
    const char *python = getenv("WEFT_TEST_PYTHON"), *writer = getenv("WEFT_TEST_TOKEN_WRITER");
    if (!python || !writer)
        test_skip("no Python to write the files with");
    snprintf(command, sizeof command, "%s %s %s", python, writer, arguments);
    CHECK_INT(system(command), 0);
}

static void write_megatron(const char *name, const char *type, const char *lengths, int seed)
{
    char arguments[512];
    snprintf(arguments, sizeof arguments, "megatron %s %s %s %d", in_folder(name), type, lengths, seed);
    write_tokens(arguments);
}

static void write_llmc(const char *name, int count, int seed)
{
    char arguments[512];
    snprintf(arguments, sizeof arguments, "llmc %s %d %d", in_folder(name), count, seed);
    write_tokens(arguments);
}

static void check_tokens(const gpt_tokens *tokens, size_t count, uint64_t seed, uint64_t most)
{
    CHECK_INT(tokens->count, count);
    for (uint64_t i = 0; i < count; i++)
        CHECK_MSG(gpt_tokens_at(tokens, i) == (int64_t)((i * seed + i / 7) % most), "token %llu is %lld",
                  (unsigned long long)i, (long long)gpt_tokens_at(tokens, i));
}

/* ---- what others have written ---- */

TEST(every_type_of_tokens_is_read_as_written)
{
    static const struct {
        const char *name;
        uint64_t most;
    } types[] = {
        {"u8", 1 << 8},  {"i8", 1 << 7}, {"i16", 1 << 15}, {"i32", (uint64_t)1 << 31}, {"i64", (uint64_t)1 << 31},
        {"u16", 1 << 16}};
    make_folder();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        gpt_tokens tokens;
        gpt_failure failure;
        write_megatron("some", types[i].name, "100,23/1/0/7,300,1", 40503);
        CHECK_MSG(gpt_tokens_open(&tokens, in_folder("some"), &failure) == 0, "%s", failure.text);
        CHECK_STR(gpt_token_types[tokens.type].name, types[i].name);
        check_tokens(&tokens, 432, 40503, types[i].most);
        CHECK_INT(tokens.documents, 4);
        CHECK(tokens.ends[0] == 123 && tokens.ends[1] == 124 && tokens.ends[2] == 124 && tokens.ends[3] == 432);
        gpt_tokens_close(&tokens);
    }
    remove_folder();
}

TEST(a_file_of_llm_c_is_read_as_written)
{
    gpt_tokens tokens;
    gpt_failure failure;
    make_folder();
    write_llmc("some", 5000, 12345);
    CHECK_MSG(gpt_tokens_open(&tokens, in_folder("some"), &failure) == 0, "%s", failure.text);
    check_tokens(&tokens, 5000, 12345, 1 << 16);
    CHECK(tokens.documents == 1 && tokens.ends[0] == 5000);
    gpt_tokens_close(&tokens);
    remove_folder();
}

TEST(negative_tokens_stay_negative)
{
    static const unsigned char bytes[] = {0xff, 0x80, 0x7f, 0xfe, 0xff, 0xff, 0xff, 0xff};
    gpt_tokens tokens = {.bytes = bytes, .count = 8, .type = 2};
    CHECK(gpt_tokens_at(&tokens, 0) == -1 && gpt_tokens_at(&tokens, 1) == -128 && gpt_tokens_at(&tokens, 2) == 127);
    tokens.type = 3;
    CHECK_INT(gpt_tokens_at(&tokens, 1), -385);
    tokens.type = 4;
    CHECK_INT(gpt_tokens_at(&tokens, 1), -1);
    tokens.type = 5;
    CHECK(gpt_tokens_at(&tokens, 0) == (int64_t)0xfffffffffe7f80ffu);
}

TEST(what_a_file_is_it_says_itself)
{
    static const struct {
        const char *name, *unit;
        size_t count;
    } cases[] = {
        {"pair", "token", 9},   {"pair.bin", "token", 9}, {"pair.idx", "token", 9},  {"llmc.bin", "token", 20},
        {"plain", "token", 20}, {"text", "byte", 12},     {"named.txt", "byte", 12},
    };
    make_folder();
    write_megatron("pair", "u16", "4/5", 3);
    write_llmc("llmc.bin", 20, 3);
    write_llmc("plain", 20, 3);
    put(in_folder("text"), (const unsigned char *)"hello, world", 12);
    put(in_folder("named.txt"), (const unsigned char *)"MMIDIDX text", 12);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpt_tokens tokens;
        gpt_failure failure;
        CHECK_MSG(gpt_tokens_open(&tokens, in_folder(cases[i].name), &failure) == 0, "%s", failure.text);
        CHECK_STR(tokens.unit, cases[i].unit);
        CHECK_INT(tokens.count, cases[i].count);
        CHECK(tokens.is_text == (strcmp(cases[i].unit, "byte") == 0));
        gpt_tokens_close(&tokens);
    }
    remove_folder();
}

TEST(what_is_written_is_what_the_other_writer_writes)
{
    unsigned char ours[4096], theirs[4096];
    gpt_tokens tokens;
    gpt_failure failure;
    make_folder();
    write_megatron("theirs", "i32", "7/100/1/30", 77);
    CHECK(gpt_tokens_open(&tokens, in_folder("theirs"), &failure) == 0);
    CHECK_MSG(gpt_megatron_write(&tokens, in_folder("ours"), &failure) == 0, "%s", failure.text);
    gpt_tokens_close(&tokens);
    size_t count = get(in_folder("theirs.idx"), theirs, sizeof theirs);
    CHECK(get(in_folder("ours.idx"), ours, sizeof ours) == count && memcmp(ours, theirs, count) == 0);
    count = get(in_folder("theirs.bin"), theirs, sizeof theirs);
    CHECK(get(in_folder("ours.bin"), ours, sizeof ours) == count && memcmp(ours, theirs, count) == 0);
    remove_folder();
}

TEST(files_that_cannot_be_written_are_named)
{
    size_t end = 1;
    const gpt_tokens tokens = {
        .bytes = (const unsigned char *)"a", .count = 1, .type = GPT_TOKEN_U8, .ends = &end, .documents = 1};
    gpt_failure failure;
    CHECK_INT(gpt_megatron_write(&tokens, "/no/such/folder/file", &failure), 1);
    CHECK_STR(failure.text, "cannot write '/no/such/folder/file.bin': No such file or directory");
}

/* ---- what is damaged ---- */

enum { ROOM = 8192 };

/* Three sequences in two documents, 5 tokens of 2 bytes: lengths from byte 34 on, offsets from 46, borders from 70. */
static size_t small_index(unsigned char *bytes)
{
    write_megatron("pair", "u16", "2,1/2", 3);
    size_t count = get(in_folder("pair.idx"), bytes, ROOM);
    CHECK_INT(count, 34 + 3 * 12 + 3 * 8);
    return count;
}

static void check_named(const char *name, const char *file, const char *says)
{
    gpt_tokens tokens;
    gpt_failure failure;
    CHECK_INT(gpt_tokens_open(&tokens, in_folder(name), &failure), 1);
    CHECK_HAS(failure.text, in_folder(file));
    CHECK_HAS(failure.text, says);
    gpt_tokens_close(&tokens);
}

TEST(what_is_wrong_with_an_index_is_named)
{
    static const struct {
        size_t at;
        int byte;
        const char *says;
    } cases[] = {
        {0, 'X', "does not begin with Megatron's MMIDIDX"},
        {8, 1, "does not begin with Megatron's MMIDIDX"},
        {9, 2, "has version 2, not 1"},
        {16, 1, "has version 72057594037927937, not 1"},
        {17, 0, "has type code 0: there are 1 to 8"},
        {17, 9, "has type code 9: there are 1 to 8"},
        {17, 6, "has type f64, which is none of tokens"},
        {17, 7, "has type f32, which is none of tokens"},
        {17, 4, "at byte 4, but those in front of it end at 8"},
        {18, 4, "has 60 bytes behind its header, which is not what 4 sequences and 3 borders"},
        {25, 0x80, "which is not what 9223372036854775811 sequences"},
        {33, 0x80, "9223372036854775811 borders"},
        {34, 3, "has sequence 1 at byte 4, but those in front of it end at 6"},
        {34, 9, "has sequence 0, 9 tokens from byte 0 on, outside of"},
        {37, 0x80, "has sequence 0, -2147483646 tokens from byte 0 on, outside of"},
        {42, 1, "has sequences of 8 bytes, but"},
        {46, 2, "has sequence 0 at byte 2, but those in front of it end at 0"},
        {54, 2, "has sequence 1 at byte 2, but those in front of it end at 4"},
        {55, 1, "has sequence 1, 1 tokens from byte 260 on, outside of"},
        {61, 0x80, "has sequence 1, 1 tokens from byte -9223372036854775804 on, outside of"},
        {70, 1, "has document 0 begin at sequence 1 of 3"},
        {78, 4, "has document 1 begin at sequence 4 of 3"},
        {85, 0xff, "has document 1 begin at sequence -72057594037927934 of 3"},
        {86, 2, "has its last document end at sequence 2 of 3"},
        {86, 1, "has document 2 begin at sequence 1 of 3"},
    };
    unsigned char bytes[ROOM];
    make_folder();
    size_t count = small_index(bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char whole = bytes[cases[i].at];
        bytes[cases[i].at] = (unsigned char)cases[i].byte;
        put(in_folder("pair.idx"), bytes, count);
        check_named("pair", "pair.idx", cases[i].says);
        bytes[cases[i].at] = whole;
    }
    for (size_t length = 0; length < count; length++) {
        put(in_folder("pair.idx"), bytes, length);
        check_named("pair.bin", "pair.idx", length < 34 ? "bytes: its header has 34" : "bytes behind its header");
    }
    put(in_folder("pair.idx"), bytes, count);
    put(in_folder("pair.bin"), bytes, 9);
    check_named("pair.idx", "pair.bin", "has sequence 2, 2 tokens from byte 6 on, outside of");
    put(in_folder("pair.bin"), bytes, 11);
    check_named("pair.idx", "pair.bin", "has sequences of 10 bytes, but");
    CHECK(unlink(in_folder("pair.bin")) == 0);
    check_named("pair", "pair.bin", "No such file or directory");
    check_named("pair2", "pair2", "No such file or directory");
    remove_folder();
}

TEST(a_file_that_becomes_shorter_while_it_is_read_is_named)
{
    int said[2], status;
    char text[256] = "";
    make_folder();
    write_llmc("some.bin", 50000, 3);
    CHECK(pipe(said) == 0);
    pid_t child = fork();
    if (child == 0) {
        gpt_tokens tokens;
        gpt_failure failure;
        dup2(said[1], STDERR_FILENO);
        if (gpt_tokens_open(&tokens, in_folder("some.bin"), &failure) || truncate(in_folder("some.bin"), 1024))
            _exit(77);
        _exit((int)(gpt_tokens_at(&tokens, 40000) & 63) + 100);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(read(said[0], text, sizeof text - 1) > 0);
    CHECK_HAS(text, in_folder("some.bin"));
    CHECK_HAS(text, "' has become shorter while it was read\n");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    close(said[0]), close(said[1]);
    remove_folder();
}

TEST(what_is_wrong_with_a_file_of_llm_c_is_named)
{
    static const struct {
        size_t at;
        int byte;
        const char *says;
    } cases[] = {
        {0, 0, "begins with 20240384, not with llm.c's 20240520, and has no .idx of Megatron beside it"},
        {4, 7, "has version 7 of llm.c's format, not 1"},
        {8, 4, "has 10 bytes behind its header, not 4 tokens of 2"},
        {11, 0x80, "has 10 bytes behind its header, not 2147483653 tokens of 2"},
    };
    unsigned char bytes[ROOM];
    make_folder();
    write_llmc("some.bin", 5, 3);
    size_t count = get(in_folder("some.bin"), bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char whole = bytes[cases[i].at];
        bytes[cases[i].at] = (unsigned char)cases[i].byte;
        put(in_folder("some.bin"), bytes, count);
        check_named("some.bin", "some.bin", cases[i].says);
        bytes[cases[i].at] = whole;
    }
    put(in_folder("some.bin"), bytes, 1023);
    check_named("some.bin", "some.bin", "has 1023 bytes: the header of llm.c has 1024");
    put(in_folder("some.bin"), bytes, 1024);
    check_named("some.bin", "some.bin", "has 0 bytes behind its header, not 5 tokens");
    put(in_folder("some.bin"), bytes, count - 1);
    check_named("some.bin", "some.bin", "has 9 bytes behind its header, not 5 tokens");
    remove_folder();
}

/* Change up to four bytes among the first @p header, and now and then the length. Returns the new length. */
static size_t mutate(unsigned char *bytes, size_t count, size_t header, uint64_t round)
{
    enum { COUNT, LENGTH, CUT, AT, VALUE = AT + 4 };
    static const unsigned char values[] = {0, 1, 2, 0x7f, 0x80, 0xff};
    gpt_random chance = gpt_random_stream(2024, "mutations");
    uint64_t changes = gpt_random_below(chance, round, COUNT, 5);
    for (uint64_t i = 0; i < changes; i++) {
        uint64_t value = gpt_random_below(chance, round, VALUE + i, 512);
        bytes[gpt_random_below(chance, round, AT + i, header)] =
            value < 256 ? (unsigned char)value : values[value % sizeof values];
    }
    if (changes == 0 || gpt_random_below(chance, round, LENGTH, 8) == 0)
        count = (size_t)gpt_random_below(chance, round, CUT, count + 16);
    return count;
}

/* An error in one line that names the file, or tokens that are all there. Returns whether it is the error. */
static bool open_mutated(const char *name, const unsigned char *tokens_bytes, size_t tokens_count)
{
    gpt_tokens tokens;
    gpt_failure failure = {0};
    int code = gpt_tokens_open(&tokens, in_folder(name), &failure);
    if (code) {
        CHECK_INT(code, 1);
        CHECK_HAS(failure.text, in_folder(name));
        CHECK(!strchr(failure.text, '\n'));
    } else {
        CHECK_INT(tokens.count * gpt_token_types[tokens.type].bytes, tokens_count);
        CHECK(memcmp(tokens.bytes, tokens_bytes, tokens_count) == 0);
        int64_t sum = 0;
        for (size_t i = 0; i < tokens.count; i++)
            sum += gpt_tokens_at(&tokens, i) & 0xff;
        CHECK(sum >= 0 && tokens.documents > 0 && tokens.ends[tokens.documents - 1] == tokens.count);
        for (size_t i = 1; i < tokens.documents; i++)
            CHECK(tokens.ends[i - 1] <= tokens.ends[i]);
    }
    gpt_tokens_close(&tokens);
    return code != 0;
}

TEST(a_thousand_damaged_headers_are_an_error_or_the_right_tokens)
{
    enum { ROUNDS = 1000 };
    unsigned char idx[ROOM], bin[ROOM], llmc[ROOM], changed[ROOM];
    int errors = 0;
    make_folder();
    write_megatron("pair", "u16", "20,1,30/2/7,7", 3);
    size_t idx_count = get(in_folder("pair.idx"), idx, sizeof idx);
    size_t bin_count = get(in_folder("pair.bin"), bin, sizeof bin);
    write_llmc("some.bin", 50, 3);
    size_t llmc_count = get(in_folder("some.bin"), llmc, sizeof llmc);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        bool megatron = round % 2 == 0;
        memset(changed, 0, sizeof changed);
        memcpy(changed, megatron ? idx : llmc, megatron ? idx_count : llmc_count);
        size_t count = megatron ? mutate(changed, idx_count, idx_count, round) : mutate(changed, llmc_count, 16, round);
        put(in_folder(megatron ? "pair.idx" : "some.bin"), changed, count);
        errors += megatron ? open_mutated("pair.idx", bin, bin_count) : open_mutated("some.bin", llmc + 1024, 100);
    }
    CHECK(errors > ROUNDS / 2 && errors < ROUNDS);
    test_note("%d of %d were refused", errors, ROUNDS);
    remove_folder();
}
