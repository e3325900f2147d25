/* SPDX-License-Identifier: Apache-2.0 */
/* Which files make the text, and what is said of those that cannot. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpt/text.h"
#include "harness/test.h"

static char folder[64];

static void put(const char *name, const char *bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(bytes, file) >= 0 && fclose(file) == 0);
}

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/test_gpt_text.XXXXXX");
    CHECK(mkdtemp(folder));
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(system(command) == 0);
}

TEST(a_folder_is_its_files_in_the_order_of_their_names)
{
    gpt_tokens text;
    gpt_failure failure;
    make_folder();
    put("b", "second ");
    put("a", "first ");
    put("C", "capital ");
    put(".hidden", "dot ");
    CHECK(mkdir(in_folder("folder"), 0700) == 0);
    CHECK(symlink("a", in_folder("z")) == 0);
    CHECK(gpt_text_read(&text, folder, &failure) == 0);
    CHECK_INT(text.count, 25);
    CHECK(memcmp(text.bytes, "dot capital first second ", 25) == 0);
    CHECK_INT(text.documents, 4);
    CHECK(text.ends[0] == 4 && text.ends[1] == 12 && text.ends[2] == 18 && text.ends[3] == 25);
    gpt_tokens_close(&text);
    remove_folder();
}

TEST(a_link_that_is_named_is_followed)
{
    gpt_tokens text;
    gpt_failure failure;
    make_folder();
    put("a", "0123456789");
    CHECK(symlink("a", in_folder("z")) == 0);
    CHECK(gpt_text_read(&text, in_folder("z"), &failure) == 0);
    CHECK_INT(text.count, 10);
    gpt_tokens_close(&text);
    remove_folder();
}

TEST(what_cannot_be_read_is_named)
{
    gpt_tokens text;
    gpt_failure failure;
    make_folder();
    CHECK_INT(gpt_text_read(&text, in_folder("missing"), &failure), 1);
    CHECK_HAS(failure.text, "missing': No such file");
    put("short", "0123456789");
    if (geteuid() != 0) {
        CHECK(chmod(in_folder("short"), 0) == 0);
        CHECK_INT(gpt_text_read(&text, folder, &failure), 1);
        CHECK_HAS(failure.text, "short': Permission denied");
        gpt_tokens_close(&text);
    }
    remove_folder();
}

TEST(the_made_up_text_follows_from_its_seed)
{
    gpt_tokens a, b, c;
    gpt_failure failure;
    CHECK(gpt_text_mock(&a, 10000, 1, 256, &failure) == 0);
    CHECK(gpt_text_mock(&b, 10000, 1, 256, &failure) == 0);
    CHECK(gpt_text_mock(&c, 10000, 2, 50, &failure) == 0);
    CHECK(memcmp(a.bytes, b.bytes, 10000) == 0 && memcmp(a.bytes, c.bytes, 10000) != 0);
    gpt_tokens_close(&a);
    gpt_tokens_close(&b);
    gpt_tokens_close(&c);
}
