/* SPDX-License-Identifier: Apache-2.0 */
/* `weft hosts`: what hosts share and do not, that links do what they are told, and that nothing is left. Where this
 * machine does not permit hosts the tests are skipped. */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"
#include "spawn.h"

enum { NOT_PERMITTED = 77 };

#define START(...) spawn_weft(NULL, (const char *const[]){"hosts", __VA_ARGS__, NULL})

/* Skip the test if these options (of `weft hosts`) ask for what the machine does not permit. */
static void need(const char *option, const char *value)
{
    spawned r = START("--hosts", "2", option, value, "true");
    int code = spawn_finish(&r);
    if (code == NOT_PERMITTED)
        test_skip("%s", r.complained.data);
    CHECK_MSG(code == 0, "code %d: %s", code, r.complained.data);
    spawn_forget(&r);
}

static void need_hosts(void)
{
    need("--ranks-per-host", "1");
}

/* The rest of the line that starts with @p start, up to @p bytes. */
static void value_of(const char *said, const char *start, char *value, size_t bytes)
{
    const char *at = strstr(said, start);
    CHECK_MSG(at, "'%s' is not in '%s'", start, said);
    snprintf(value, bytes, "%.*s", (int)strcspn(at + strlen(start), "\n"), at + strlen(start));
}

/* ---- gone ---- */

/* Is any process in the network namespace @p name ("net:[4026532250]")? */
static bool is_inhabited(const char *name)
{
    char path[300], link[64];
    bool found = false;
    DIR *processes = opendir("/proc");
    CHECK(processes);
    for (struct dirent *entry; (entry = readdir(processes)) && !found;) {
        snprintf(path, sizeof path, "/proc/%s/ns/net", entry->d_name);
        ssize_t n = readlink(path, link, sizeof link - 1);
        link[n > 0 ? n : 0] = 0;
        found = strcmp(link, name) == 0;
    }
    closedir(processes);
    return found;
}

static void check_gone(const char *said)
{
    char name[64];
    value_of(said, "network ", name, sizeof name);
    CHECK_MSG(!is_inhabited(name), "somebody still lives in %s", name);
}

/* A program that leaves another behind, in a session of its own, before it says where it is. */
#define LEAVE_BEHIND "setsid sleep 1000 & sleep 1000 & echo network $(readlink /proc/self/ns/net); "

TEST(nothing_is_left_when_ranks_end)
{
    need_hosts();
    spawned r = START("--hosts", "2", "--rate", "1gbit", "--", "sh", "-c", LEAVE_BEHIND);
    CHECK_INT(spawn_finish(&r), 0);
    check_gone(r.said.data);
    spawn_forget(&r);
}

TEST(a_rank_that_fails_ends_those_on_other_hosts)
{
    need_hosts();
    spawned r = START("--hosts", "3", "--ranks-per-host", "2", "--last-words", "0", "--", "sh", "-c",
                      LEAVE_BEHIND "[ $WEFT_RANK != 3 ] || exit 5; sleep 1000");
    CHECK_INT(spawn_finish(&r), 5);
    CHECK_STR(r.complained.data, "weft: rank 3 ended with code 5\nweft: ending 5 ranks\n");
    check_gone(r.said.data);
    spawn_forget(&r);
}

TEST(a_rank_that_is_killed_is_named)
{
    need_hosts();
    spawned r = START("--hosts", "2", "--last-words", "0", "--", "sh", "-c",
                      "[ $WEFT_RANK != 1 ] || kill -9 $$; exec sleep 1000");
    CHECK_INT(spawn_finish(&r), 128 + SIGKILL);
    CHECK_HAS(r.complained.data, "weft: rank 1 was killed by signal 9");
    spawn_forget(&r);
}

TEST(signals_reach_the_ranks)
{
    need_hosts();
    spawned r = START("--hosts", "2", "--", "sh", "-c",
                      "trap 'echo told; exit 9' TERM; echo network $(readlink /proc/self/ns/net); "
                      "while :; do sleep 0.01; done");
    spawn_read_until(&r, "[0] network");
    spawn_read_until(&r, "[1] network");
    kill(r.pid, SIGTERM);
    CHECK_INT(spawn_finish(&r), 9);
    CHECK_INT(spawn_count(r.said.data, "told\n"), 2);
    check_gone(r.said.data);
    spawn_forget(&r);
}

/* Orphans come to this process, so it hears of the end of all of them. The limit of the test is the deadline. */
static void check_all_end(const spawned *r)
{
    int status;
    while (waitpid(-1, &status, 0) > 0)
        ;
    check_gone(r->said.data);
}

static void kill_in_the_middle(const char *option, const char *value)
{
    need(option, value);
    spawned r = START("--hosts", "2", option, value, "--", "sh", "-c", LEAVE_BEHIND "sleep 1000");
    spawn_read_until(&r, "[0] network");
    spawn_read_until(&r, "[1] network");
    char name[64];
    value_of(r.said.data, "network ", name, sizeof name);
    CHECK(is_inhabited(name));
    kill(r.pid, SIGKILL);
    check_all_end(&r);
    spawn_forget(&r);
}

TEST(nothing_is_left_when_the_command_is_killed)
{
    kill_in_the_middle("--rate", "1gbit");
}

TEST(the_switch_ends_when_the_command_is_killed)
{
    kill_in_the_middle("--delay", "1ms");
}

/* At whatever point: some come before the hosts are, some after. */
TEST(nothing_is_left_when_the_command_is_killed_early)
{
    need_hosts();
    for (int i = 0; i < 20; i++) {
        spawned r = START("--hosts", "3", "--rate", "1gbit", "--", "sleep", "1000");
        usleep((useconds_t)(3000 * i));
        kill(r.pid, SIGKILL);
        int status;
        while (waitpid(-1, &status, 0) > 0)
            ;
        close(r.in);
        while (spawn_read(&r))
            ;
        spawn_forget(&r);
    }
}

/* ---- hosts ---- */

TEST(hosts_share_nothing_but_files)
{
    need_hosts();
    spawned r = START("--hosts", "2", "--ranks-per-host", "2", "--", "sh", "-c",
                      "echo host $(hostname); echo in $(pwd); echo interfaces $(ls /sys/class/net); "
                      "echo place $(cat /sys/class/net/eth0/address); "
                      "for n in net uts ipc pid mnt; do echo $n $(readlink /proc/self/ns/$n); done; "
                      "> /dev/shm/$WEFT_RANK; while [ ! -e /dev/shm/$((WEFT_RANK ^ 1)) ]; do sleep 0.01; done; "
                      "echo memory $(ls /dev/shm); ls -d /proc/[0-9]* | wc -l");
    CHECK_INT(spawn_finish(&r), 0);
    static const char *const lines[] = {"[0] host hostA\n",
                                        "[1] host hostA\n",
                                        "[2] host hostB\n",
                                        "[3] host hostB\n",
                                        "[0] memory 0 1\n",
                                        "[3] memory 2 3\n",
                                        "[1] interfaces eth0 lo\n",
                                        "[2] interfaces eth0 lo\n",
                                        "[0] place 02:00:00:00:00:00\n",
                                        "[2] place 02:00:00:00:00:01\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        CHECK_HAS(r.said.data, lines[i]);
    static const char *const kinds[] = {"net", "uts", "ipc", "pid", "mnt"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char start[32], of[4][64], own[64] = "", path[32];
        for (int rank = 0; rank < 4; rank++) {
            snprintf(start, sizeof start, "[%d] %s ", rank, kinds[i]);
            value_of(r.said.data, start, of[rank], sizeof of[rank]);
        }
        snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i]);
        CHECK(readlink(path, own, sizeof own - 1) > 0);
        CHECK_STR(of[0], of[1]);
        CHECK_STR(of[2], of[3]);
        CHECK_MSG(strcmp(of[0], of[2]) != 0 && strcmp(of[0], own) != 0 && strcmp(of[2], own) != 0, "%s is shared",
                  kinds[i]);
    }
    char folder[400], line[420];
    CHECK(getcwd(folder, sizeof folder));
    snprintf(line, sizeof line, "[3] in %s\n", folder);
    CHECK_HAS(r.said.data, line);
    spawn_forget(&r);
}

#define SAY_WHO                                                                                         \
    "echo $WEFT_RANK $WEFT_SIZE $WEFT_LOCAL_RANK $WEFT_RENDEZVOUS torch $RANK $WORLD_SIZE $LOCAL_RANK " \
    "$LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT"

TEST(ranks_know_who_they_are)
{
    need_hosts();
    for (const char *const *name = (const char *const[]){"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                                         "MASTER_ADDR", "MASTER_PORT", NULL};
         *name; name++)
        unsetenv(*name);
    spawned weft = START("--hosts", "2", "--ranks-per-host", "2", "--", "sh", "-c", SAY_WHO);
    CHECK_INT(spawn_finish(&weft), 0);
    CHECK_HAS(weft.said.data, "[0] 0 4 0 tcp://10.0.0.1:29400 torch\n");
    CHECK_HAS(weft.said.data, "[3] 3 4 1 tcp://10.0.0.1:29400 torch\n");
    spawned torch = START("--hosts", "3", "--torch-env", "--", "sh", "-c", SAY_WHO);
    CHECK_INT(spawn_finish(&torch), 0);
    CHECK_HAS(torch.said.data, "[2] 2 3 0 tcp://10.0.0.1:29400 torch 2 3 0 1 10.0.0.1 29500\n");
    spawn_forget(&weft);
    spawn_forget(&torch);
}

TEST(one_program_runs_on_one_host)
{
    need_hosts();
    spawned r = START("--hosts", "3", "--shell", "hostB", "--", "sh", "-c", "hostname; echo $WEFT_RANK; exit 3");
    CHECK_INT(spawn_finish(&r), 3);
    CHECK_STR(r.said.data, "hostB\n\n");
    spawn_forget(&r);
}

/* Where the launcher cannot have children of its own again, the one that looks for leaks cannot start. */
TEST(hosts_can_do_without_root)
{
    need_hosts();
    spawned r =
        spawn_weft(NULL, (const char *const[]){"run", "-n", "1", "--", "setpriv", "--reuid=65534", "--regid=65534",
                                               "--clear-groups", "env", "ASAN_OPTIONS=detect_leaks=0", spawn_command(),
                                               "hosts", "--hosts", "2", "--rate", "1gbit", "hostname", NULL});
    int code = spawn_finish(&r);
    bool is_closed = strstr(r.complained.data, "setpriv") || strstr(r.complained.data, "Permission denied");
    if (code == NOT_PERMITTED || is_closed) /* a folder that is not for others, or a test without root */
        test_skip("%s", r.complained.data);
    CHECK_MSG(code == 0, "code %d: %s", code, r.complained.data);
    CHECK_HAS(r.said.data, "[1] hostB\n");
    spawn_forget(&r);
}

/* ---- links ---- */

/* Sends BYTES from the last rank to rank 0 after a few round trips, and says how long both took. */
static const char pump[] = "import os, socket, time\n"
                           "rank, count = int(os.environ['WEFT_RANK']), int(os.environ['BYTES'])\n"
                           "host, port = os.environ['WEFT_RENDEZVOUS'][6:].rsplit(':', 1)\n"
                           "family = socket.AF_INET6 if '[' in host else socket.AF_INET\n"
                           "address = host.strip('[]'), int(port)\n"
                           "if rank == 0:\n"
                           "    server = socket.create_server(address, family=family)\n"
                           "    peer, _ = server.accept()\n"
                           "else:\n"
                           "    while True:\n"
                           "        peer = socket.socket(family)\n"
                           "        try:\n"
                           "            peer.connect(('hostA', int(port)))\n"
                           "            break\n"
                           "        except OSError:\n"
                           "            peer.close()\n"
                           "            time.sleep(0.01)\n"
                           "peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n"
                           "trips = []\n"
                           "for _ in range(10):\n"
                           "    start = time.monotonic()\n"
                           "    if rank: peer.sendall(b'x')\n"
                           "    peer.recv(1)\n"
                           "    if not rank: peer.sendall(b'x')\n"
                           "    trips.append(time.monotonic() - start)\n"
                           "start = time.monotonic()\n"
                           "if rank:\n"
                           "    peer.sendall(bytes(count))\n"
                           "    peer.recv(1)\n"
                           "    print('trip_us', int(1e6 * min(trips)))\n"
                           "    print('took_us', int(1e6 * (time.monotonic() - start)))\n"
                           "else:\n"
                           "    left = count\n"
                           "    while left:\n"
                           "        left -= len(peer.recv(left))\n"
                           "    peer.sendall(b'x')\n";

typedef struct pumped {
    long trip_us, took_us;
    long sent[2], received[2]; /* by host, in bytes */
} pumped;

static long number_behind(const char *text, const char *start)
{
    char value[64];
    value_of(text, start, value, sizeof value);
    return atol(value);
}

static pumped run_pump(const char *bytes, const char *rate, const char *delay, bool ipv6)
{
    const char *arguments[] = {"hosts", "--hosts",    "2",       "--rate", rate, "--delay",
                               delay,   "--counters", "python3", "-c",     pump, NULL};
    const char *six[sizeof arguments / sizeof *arguments + 1] = {"hosts", "--ipv6"};
    memcpy(six + 2, arguments + 1, sizeof arguments - sizeof *arguments);
    setenv("BYTES", bytes, 1);
    spawned r = spawn_weft(NULL, ipv6 ? six : arguments);
    int code = spawn_finish(&r);
    if (code == NOT_PERMITTED)
        test_skip("%s", r.complained.data);
    CHECK_MSG(code == 0, "code %d: %s", code, r.complained.data);
    CHECK_HAS(r.complained.data, "mtu 1500, ");
    CHECK_HAS(r.complained.data, ipv6 ? "IPv6, congestion control " : "IPv4, congestion control ");
    pumped p = {.trip_us = number_behind(r.said.data, "trip_us "), .took_us = number_behind(r.said.data, "took_us ")};
    for (int i = 0; i < 2; i++) {
        char start[32];
        snprintf(start, sizeof start, "weft: host%c sent ", 'A' + i);
        p.sent[i] = number_behind(r.complained.data, start);
        p.received[i] = number_behind(strstr(r.complained.data, start), "bytes, received ");
    }
    spawn_forget(&r);
    return p;
}

/* What is counted is the data, its headers, and little else; each byte is seen at both ends of its way. */
static void check_counters(const pumped *p, long bytes)
{
    CHECK_MSG(p->sent[1] >= bytes && p->sent[1] < bytes + bytes / 10, "%ld bytes sent", p->sent[1]);
    CHECK_MSG(p->received[0] >= bytes && p->received[0] < bytes + bytes / 10, "%ld bytes received", p->received[0]);
    CHECK_MSG(p->sent[0] < bytes / 5, "%ld bytes sent back", p->sent[0]);
}

TEST(counters_count_what_passes)
{
    need_hosts();
    pumped p = run_pump("20000000", "unlimited", "0us", false);
    check_counters(&p, 20000000);
}

TEST(hosts_have_ipv6)
{
    need_hosts();
    pumped p = run_pump("5000000", "unlimited", "0us", true);
    check_counters(&p, 5000000);
}

/* No load makes a link faster: 4 MB, less what may be sent at once at both ends of the link, at 12.5 MB a second. */
TEST(a_rate_is_not_exceeded)
{
    need_hosts();
    pumped p = run_pump("4000000", "100mbit", "0us", false);
    check_counters(&p, 4000000);
    CHECK_MSG(p.took_us > (4000000 - 2 * 131072) / 12.5, "4 MB took %ld us", p.took_us);
}

TEST(a_delay_is_not_undercut)
{
    need("--delay", "3ms");
    pumped p = run_pump("4000000", "100mbit", "3ms", false);
    check_counters(&p, 4000000);
    CHECK_MSG(p.trip_us >= 6000, "a round trip took %ld us", p.trip_us);
    CHECK_MSG(p.took_us > 4000000 / 12.5 + 6000, "4 MB took %ld us", p.took_us);
    pumped six = run_pump("100000", "unlimited", "3ms", true);
    CHECK_MSG(six.trip_us >= 6000, "a round trip took %ld us", six.trip_us);
}

/* Once rank 0 answers, rank 1 sends it datagrams, with time for each to be taken; it counts until an end. */
static const char drops[] = "import os, socket, time\n"
                            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                            "hub = ('10.0.0.1', 5000)\n"
                            "def ask(what):\n"
                            "    s.settimeout(0.02)\n"
                            "    while True:\n"
                            "        try:\n"
                            "            s.sendto(what, hub)\n"
                            "            if s.recv(100) == what: return\n"
                            "        except OSError: pass\n"
                            "if os.environ['WEFT_RANK'] == '0':\n"
                            "    s.bind(hub)\n"
                            "    seen, data = 0, b''\n"
                            "    while data != b'end':\n"
                            "        data, who = s.recvfrom(100)\n"
                            "        seen += data == b'data'\n"
                            "        if data == b'hello': s.sendto(data, who)\n"
                            "    print('seen', seen)\n"
                            "    for _ in range(50): s.sendto(data, who)\n"
                            "else:\n"
                            "    ask(b'hello')\n"
                            "    for i in range(1000):\n"
                            "        s.sendto(b'data', hub)\n"
                            "        if i % 20 == 19: time.sleep(0.001)\n"
                            "    ask(b'end')\n";

TEST(packets_get_lost)
{
    need("--loss", "50%");
    spawned r = START("--hosts", "2", "--loss", "30%", "python3", "-c", drops);
    CHECK_INT(spawn_finish(&r), 0);
    long seen = number_behind(r.said.data, "[0] seen ");
    /* 700 of 1000, and seven standard deviations of 14.5; nobody is late with taking 20 of them */
    CHECK_MSG(seen > 0 && seen < 700 + 7 * 14.5, "%ld of 1000 have come", seen);
    spawn_forget(&r);
}

TEST(hosts_have_the_congestion_control_that_is_asked_for)
{
    need_hosts();
    spawned r = START("--hosts", "2", "--congestion", "reno", "--counters", "sh", "-c", "ip route");
    int code = spawn_finish(&r);
    if (code == NOT_PERMITTED || code == 127)
        test_skip("%s", r.complained.data);
    CHECK_INT(code, 0);
    CHECK_HAS(r.said.data, "congctl reno");
    CHECK_HAS(r.complained.data, "congestion control reno\n");
    spawned wrong = START("--hosts", "2", "--congestion", "no-such", "true");
    CHECK_INT(spawn_finish(&wrong), NOT_PERMITTED);
    CHECK_HAS(wrong.complained.data, "weft: the kernel has no congestion control 'no-such' ready, only: ");
    spawn_forget(&r);
    spawn_forget(&wrong);
}

/* ---- what cannot start ---- */

TEST(wrong_use_is_named)
{
    static const struct {
        const char *arguments[8], *says;
    } cases[] = {
        {{"hosts", "true"}, "--hosts is missing"},
        {{"hosts", "--hosts", "0", "true"}, "--hosts is '0', not a number from 1 to 26"},
        {{"hosts", "--hosts", "27", "true"}, "--hosts is '27'"},
        {{"hosts", "--hosts", "2"}, "no program"},
        {{"hosts", "--hosts", "2", "--ranks-per-host", "0", "true"}, "--ranks-per-host is '0'"},
        {{"hosts", "--hosts", "2", "--rate", "1", "true"}, "--rate is '1', not a rate from 1kbit"},
        {{"hosts", "--hosts", "2", "--delay", "1", "true"}, "--delay is '1', not a time such as 500us"},
        {{"hosts", "--hosts", "2", "--loss", "100%", "true"}, "--loss is '100%', not a part such as 0.1%"},
        {{"hosts", "--hosts", "2", "--mtu", "100", "true"}, "--mtu is '100'"},
        {{"hosts", "--hosts", "2", "--shell", "hostC", "true"}, "--shell is 'hostC', not one of the 2 hosts"},
        {{"hosts", "--hosts", "2", "--timeout", "-1", "true"}, "--timeout is '-1'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spawned r = spawn_weft(NULL, cases[i].arguments);
        CHECK_INT(spawn_finish(&r), 2);
        CHECK_HAS(r.complained.data, cases[i].says);
        CHECK_INT(spawn_count(r.complained.data, "\n"), 1);
        spawn_forget(&r);
    }
}

TEST(a_program_that_is_not_there_is_named)
{
    need_hosts();
    spawned r = START("--hosts", "2", "--", "weft-no-such-program");
    CHECK_INT(spawn_finish(&r), 127);
    CHECK_STR(r.complained.data, "weft: cannot run 'weft-no-such-program': No such file or directory\n");
    spawn_forget(&r);
}

/* As on a machine that permits user namespaces and no network in them. */
TEST(what_a_machine_does_not_permit_is_said)
{
    need_hosts();
    spawned none =
        spawn_weft(NULL, (const char *const[]){"run", "-n", "1", "--prefix", "none", "--", "unshare", "-Ur", "sh", "-c",
                                               "echo 0 > /proc/sys/user/max_net_namespaces || exit 99; "
                                               "exec $WEFT_TEST_COMMAND hosts --hosts 2 true",
                                               NULL});
    int code = spawn_finish(&none);
    if (code == 99 || strstr(none.complained.data, "unshare:"))
        test_skip("there are no user namespaces to try it in");
    CHECK_INT(code, NOT_PERMITTED);
    CHECK_HAS(none.complained.data, "weft: hosts need namespaces, which this machine permits neither");
    spawn_forget(&none);
}
