/* Licensed under the Apache License, Version 2.0 (the "License");
 * you may not use this file except in compliance with the License.
 * You may obtain a copy of the License at
 *
 *     http://www.apache.org/licenses/LICENSE-2.0
 *
 * Unless required by applicable law or agreed to in writing, software
 * distributed under the License is distributed on an "AS IS" BASIS,
 * WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
 * See the License for the specific language governing permissions and
 * limitations under the License.
 */

/**
 * @file bench/load.c
 * @brief HTTP clients that check every response to its last byte, and tell
 *        apart the ways in which one can fail.
 *
 *     load -p PORT -u PATH [-c CLIENTS] [-e END] [-k] [-s] [-n COUNT]
 *          [-d SECONDS] [-t HEADER] [-w SECONDS] [-i] [-v]
 *
 * Each client connects to 127.0.0.1, sends a GET, reads the response and
 * starts anew, until COUNT requests have been made, SECONDS have passed, or
 * SIGTERM or SIGINT comes; requests under way are finished first.  Then the
 * counts are printed as one line of JSON.
 *
 *   answered          status 200, complete, and the body ends with END; with
 *                     -w, within SECONDS after a mark
 *   outside           the same, but at another time than -w says
 *   refused           no connection: nobody listened
 *   reset_unaccepted  connected, but closed before the first byte that the
 *                     server says: what happens to connections that wait in
 *                     the backlog of a listener that is closed
 *   lost              everything else: cut in the middle, another status,
 *                     the wrong end, nothing for 30 seconds
 *   stale             with -k: the server had closed an idle connection; the
 *                     request is made again on a new one, as HTTP asks for.
 *                     A connection that a response has ended by saying
 *                     "Connection: close" is not one of these.
 *
 * With -i, commands come on standard input, a line each; its end stops the
 * clients, so that they do not outlive who started them:
 *
 *   count             print the counts so far
 *   mark TAG          print the counts so far, and measure the time from now
 *                     to the end of the first answer that names TAG in the
 *                     header given by -t and whose request was sent later;
 *                     "gaps_ms" lists these times
 *
 * HTTP/1.0 is spoken, for it has no chunked bodies: a body is as long as
 * Content-Length says, or lasts until the connection ends.  With -k it is
 * HTTP/1.1, and the page must be one that is not chunked.  -s is for TLS.
 *
 * One thread and ppoll(); signals are blocked except while it waits.
 */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "bench/transport.h"

#define MAX_CLIENTS 4096
#define MAX_HEAD 8192
#define MAX_READ 16384 /* what a record of TLS can have */
#define MAX_END 64
#define MAX_TAG 64
#define MAX_LINE 256

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
#define RESPONSE_TIMEOUT (30 * NS_PER_S)
/* A refused client asks again after this time: no busy loop, and not long
 * beside the gaps that are measured.
 */
#define RETRY_TIME (2 * NS_PER_MS)

typedef enum {
    IDLE,   /* makes the next request at once */
    PAUSED, /* refused: waits until deadline */
    CONNECTING,
    SENDING,
    HEAD, /* reads the response's head */
    BODY
} state_e;

typedef struct {
    state_e state;
    transport_t transport;
    int reused;              /* this is not the connection's first request */
    int64_t deadline;        /* of a pause, or for the whole response */
    int64_t sent_at;         /* when the request was begun */
    size_t sent;             /* bytes of the request that are sent */
    char head[MAX_HEAD + 1]; /* what is read of the head, terminated */
    size_t head_length;
    char tail[MAX_END]; /* the last bytes of the body */
    size_t tail_length;
    int64_t body_length;    /* bytes of the body that are read */
    int64_t content_length; /* -1: the body lasts until the end */
    int status;
    int keep; /* the connection outlives the response */
} client_t;

static struct {
    int port;
    const char *path;
    int clients;
    const char *end;
    size_t end_length;
    int keep_alive;
    int tls;
    int64_t count;  /* requests to make; -1: no limit */
    double seconds; /* 0: no limit */
    const char *tag_header;
    int64_t window; /* nanoseconds after a mark; 0: all the time */
    int interactive;
    int verbose;
} option = { .path = "/", .clients = 24, .end = "", .count = -1 };

static struct {
    int64_t answered;
    int64_t outside;
    int64_t refused;
    int64_t reset_unaccepted;
    int64_t lost;
    int64_t stale;
} counts;

static struct {
    int open; /* a mark waits for its answer */
    char tag[MAX_TAG];
    int64_t at;
    int64_t *gaps; /* nanoseconds */
    size_t used;
    size_t allocated;
} marks;

static volatile sig_atomic_t stop_requested;
static char request[1024];
static size_t request_length;
static int64_t started_at;
static client_t *clients;

static int64_t now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

__attribute__((noreturn, format(printf, 1, 2))) static void die(
    const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(2);
}

static void on_signal(int signo)
{
    (void)signo;
    stop_requested = 1;
}

static void print_counts(int final)
{
    size_t i;

    printf("{\"answered\":%lld,\"outside\":%lld,\"refused\":%lld,"
           "\"reset_unaccepted\":%lld,\"lost\":%lld,\"stale\":%lld,"
           "\"seconds\":%.3f,\"open_marks\":%d",
           (long long)counts.answered, (long long)counts.outside,
           (long long)counts.refused, (long long)counts.reset_unaccepted,
           (long long)counts.lost, (long long)counts.stale,
           (double)(now() - started_at) / (double)NS_PER_S, marks.open);
    if (final) {
        fputs(",\"gaps_ms\":[", stdout);
        for (i = 0; i < marks.used; i++) {
            printf("%s%.1f", i ? "," : "",
                   (double)marks.gaps[i] / (double)NS_PER_MS);
        }
        fputs("]", stdout);
    }
    puts("}");
    if (fflush(stdout) != 0) {
        die("cannot write the result: %s", strerror(errno));
    }
}

/* --- one client ------------------------------------------------------- */

static void begin(client_t *c);

static void disconnect(client_t *c)
{
    transport_close(&c->transport);
    c->state = IDLE;
}

static void fail(client_t *c, int64_t *count, const char *reason)
{
    ++*count;
    if (option.verbose) {
        fprintf(stderr,
                "load: %s after %.0f ms, %zu bytes of head,"
                " %lld of body\n",
                reason, (double)(now() - c->sent_at) / (double)NS_PER_MS,
                c->head_length, (long long)c->body_length);
    }
    disconnect(c);
}

static void refused(client_t *c)
{
    fail(c, &counts.refused, "refused");
    c->state = PAUSED;
    c->deadline = now() + RETRY_TIME;
}

/* The connection ended, or broke, before the response was complete. */
static void broken(client_t *c, const char *reason)
{
    int nothing_read = c->head_length == 0;

    if (nothing_read && c->reused) {
        ++counts.stale;
        disconnect(c);
        begin(c);
    }
    else if (nothing_read && !transport_heard(&c->transport)) {
        fail(c, &counts.reset_unaccepted, reason);
    }
    else {
        fail(c, &counts.lost, reason);
    }
}

static void send_request(client_t *c)
{
    ssize_t n = transport_send(&c->transport, request + c->sent,
                               request_length - c->sent);

    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            broken(c, strerror(errno));
        }
        return;
    }
    c->sent += (size_t)n;
    if (c->sent == request_length) {
        c->state = HEAD;
        c->transport.wants = POLLIN;
    }
}

static void connected(client_t *c)
{
    int error = transport_go_on(&c->transport);

    if (error == ECONNREFUSED) {
        refused(c);
    }
    else if (error == 0) {
        c->state = SENDING;
        send_request(c);
    }
    else if (error != EAGAIN) {
        /* a reset of what was connected already is ECONNRESET, never
         * ECONNREFUSED
         */
        broken(c, strerror(error));
    }
}

static void connect_client(client_t *c)
{
    c->state = CONNECTING;
    if (transport_open(&c->transport, option.port) == 0) {
        return;
    }
    if (errno != ECONNREFUSED) {
        /* no port or no memory left here: the server is not to blame */
        die("connect: %s", strerror(errno));
    }
    refused(c);
}

static void begin(client_t *c)
{
    c->sent = c->head_length = c->tail_length = 0;
    c->body_length = 0;
    c->content_length = -1;
    c->keep = 0;
    c->sent_at = now();
    c->deadline = c->sent_at + RESPONSE_TIMEOUT;
    c->reused = c->transport.fd >= 0;
    if (c->reused) {
        c->state = SENDING;
        send_request(c);
    }
    else {
        connect_client(c);
    }
}

/* The value of a header, or NULL; its length is set to that of the value. */
static const char *find_header(const client_t *c, const char *name,
                               size_t *length)
{
    size_t name_length = strlen(name);
    const char *line = strstr(c->head, "\r\n");
    const char *value;

    for (; line && line[2]; line = strstr(line + 2, "\r\n")) {
        value = line + 2 + name_length;
        if (strncasecmp(line + 2, name, name_length) == 0 && *value == ':') {
            do {
                ++value;
            } while (*value == ' ');
            *length = strcspn(value, "\r");
            return value;
        }
    }
    return NULL;
}

static int header_is(const client_t *c, const char *name, const char *wanted)
{
    size_t length;
    const char *value = find_header(c, name, &length);

    return value && length == strlen(wanted)
           && strncasecmp(value, wanted, length) == 0;
}

static void note_gap(const client_t *c)
{
    if (!marks.open || c->sent_at < marks.at
        || !header_is(c, option.tag_header, marks.tag)) {
        return;
    }
    if (marks.used == marks.allocated) {
        marks.allocated = marks.allocated ? 2 * marks.allocated : 64;
        marks.gaps = realloc(marks.gaps, marks.allocated * sizeof(*marks.gaps));
        if (!marks.gaps) {
            die("no memory");
        }
    }
    marks.gaps[marks.used++] = now() - marks.at;
    marks.open = 0;
}

static void complete(client_t *c)
{
    if (c->status != 200) {
        fail(c, &counts.lost, "wrong status");
    }
    else if (c->tail_length < option.end_length
             || memcmp(c->tail + c->tail_length - option.end_length, option.end,
                       option.end_length)
                    != 0) {
        fail(c, &counts.lost, "wrong end");
    }
    else {
        if (option.window && now() - marks.at > option.window) {
            ++counts.outside;
        }
        else {
            ++counts.answered;
        }
        note_gap(c);
        if (c->keep) {
            c->state = IDLE;
        }
        else {
            disconnect(c);
        }
    }
}

/* The end may be split over reads: keep the last MAX_END bytes. */
static void take_body(client_t *c, const char *data, size_t length)
{
    size_t keep;

    c->body_length += (int64_t)length;
    if (length >= MAX_END) {
        memcpy(c->tail, data + length - MAX_END, MAX_END);
        c->tail_length = MAX_END;
    }
    else {
        keep = c->tail_length;
        if (keep + length > MAX_END) {
            keep = MAX_END - length;
        }
        memmove(c->tail, c->tail + c->tail_length - keep, keep);
        memcpy(c->tail + keep, data, length);
        c->tail_length = keep + length;
    }
    if (c->content_length >= 0 && c->body_length >= c->content_length) {
        complete(c);
    }
}

static void take_head(client_t *c, const char *data, size_t length)
{
    size_t before = c->head_length;
    size_t room = MAX_HEAD - before;
    size_t taken = length < room ? length : room;
    size_t used;
    const char *value;
    const char *end;
    size_t value_length;

    memcpy(c->head + before, data, taken);
    c->head_length += taken;
    c->head[c->head_length] = '\0';
    end = strstr(c->head, "\r\n\r\n");
    if (!end) {
        if (c->head_length == MAX_HEAD) {
            fail(c, &counts.lost, "endless head");
        }
        return;
    }
    if (sscanf(c->head, "HTTP/1.%*d %d", &c->status) != 1) {
        fail(c, &counts.lost, "not HTTP");
        return;
    }
    if (find_header(c, "Transfer-Encoding", &value_length)) {
        fail(c, &counts.lost, "chunked");
        return;
    }
    value = find_header(c, "Content-Length", &value_length);
    if (value) {
        c->content_length = strtoll(value, NULL, 10);
        c->keep = option.keep_alive && !header_is(c, "Connection", "close");
    }
    /* what follows the head in the same read is body */
    used = (size_t)(end - c->head) + 4 - before;
    c->state = BODY;
    take_body(c, data + used, length - used);
}

static void read_response(client_t *c)
{
    char buffer[MAX_READ];
    ssize_t n = transport_receive(&c->transport, buffer, sizeof(buffer));

    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            broken(c, strerror(errno));
        }
    }
    else if (n == 0) {
        if (c->state == BODY && c->content_length < 0) {
            complete(c);
        }
        else {
            broken(c, "ended early");
        }
    }
    else if (c->state == HEAD) {
        take_head(c, buffer, (size_t)n);
    }
    else {
        take_body(c, buffer, (size_t)n);
    }
}

static void ready(client_t *c)
{
    switch (c->state) {
    case CONNECTING:
        connected(c);
        break;
    case SENDING:
        send_request(c);
        break;
    case HEAD:
    case BODY:
        read_response(c);
        break;
    default:
        break;
    }
}

/* --- all of them ------------------------------------------------------ */

static void set_mark(const char *tag)
{
    size_t size = strlen(tag) + 1;

    if (size > MAX_TAG) {
        die("tag too long: %s", tag);
    }
    if (marks.open) {
        die("mark %s before mark %s was answered", tag, marks.tag);
    }
    memcpy(marks.tag, tag, size);
    marks.at = now();
    marks.open = 1;
}

/* Returns 0 at the end of the input. */
static int read_commands(void)
{
    static char buffer[MAX_LINE];
    static size_t used;
    char *newline;
    ssize_t n = read(STDIN_FILENO, buffer + used, sizeof(buffer) - 1 - used);

    if (n <= 0) {
        return n < 0 && errno == EINTR;
    }
    used += (size_t)n;
    buffer[used] = '\0';
    while ((newline = strchr(buffer, '\n')) != NULL) {
        *newline = '\0';
        if (strcmp(buffer, "count") == 0) {
            print_counts(0);
        }
        else if (strncmp(buffer, "mark ", 5) == 0 && option.tag_header) {
            set_mark(buffer + 5);
            print_counts(0);
        }
        else {
            die("unknown command: %s", buffer);
        }
        used -= (size_t)(newline + 1 - buffer);
        memmove(buffer, newline + 1, used + 1);
    }
    if (used == sizeof(buffer) - 1) {
        die("command too long");
    }
    return 1;
}

/* Starts what can start and ends what is overdue.  Returns the time at which
 * it is to be called again at the latest.
 */
static int64_t tend_clients(int64_t *to_make)
{
    int64_t at = now();
    int64_t next = INT64_MAX;
    client_t *c;

    for (c = clients; c < clients + option.clients; c++) {
        if (c->state == PAUSED && c->deadline <= at) {
            c->state = IDLE;
        }
        else if (c->state > PAUSED && c->deadline <= at) {
            fail(c, &counts.lost, "timeout");
        }
        if (c->state == IDLE && *to_make != 0) {
            if (*to_make > 0) {
                --*to_make;
            }
            begin(c);
        }
        if (c->state == IDLE && *to_make != 0) {
            next = at;
        }
        else if (c->state != IDLE && c->deadline < next) {
            next = c->deadline;
        }
    }
    return next;
}

static int busy_clients(void)
{
    int busy = 0;
    int i;

    for (i = 0; i < option.clients; i++) {
        busy += clients[i].state > PAUSED;
    }
    return busy;
}

static void wait_for_events(struct pollfd *fds, int commands, int64_t until,
                            const sigset_t *mask)
{
    int64_t left = until - now();
    struct timespec timeout;
    int i;

    for (i = 0; i < option.clients; i++) {
        fds[i].fd = clients[i].state > PAUSED ? clients[i].transport.fd : -1;
        fds[i].events = clients[i].transport.wants;
    }
    fds[i].fd = commands ? STDIN_FILENO : -1;
    fds[i].events = POLLIN;
    if (left < 0) {
        left = 0;
    }
    timeout.tv_sec = left / NS_PER_S;
    timeout.tv_nsec = left % NS_PER_S;
    if (ppoll(fds, (nfds_t)option.clients + 1, &timeout, mask) < 0) {
        if (errno != EINTR) {
            die("ppoll: %s", strerror(errno));
        }
        /* what the events say is undefined */
        for (i = 0; i <= option.clients; i++) {
            fds[i].revents = 0;
        }
    }
}

static void run(const sigset_t *mask)
{
    struct pollfd *fds = calloc((size_t)option.clients + 1, sizeof(*fds));
    int64_t to_make = option.count;
    int64_t stop_at = INT64_MAX;
    int64_t until;
    int commands = option.interactive;
    int i;

    if (!fds) {
        die("no memory");
    }
    started_at = now();
    if (option.seconds > 0) {
        stop_at = started_at + (int64_t)(option.seconds * (double)NS_PER_S);
    }
    for (;;) {
        if (stop_requested || now() >= stop_at) {
            to_make = 0;
            stop_at = INT64_MAX;
        }
        until = tend_clients(&to_make);
        if (to_make == 0 && !busy_clients()) {
            break;
        }
        wait_for_events(fds, commands, until < stop_at ? until : stop_at, mask);
        /* a mark that came first counts first */
        if (fds[option.clients].revents && !read_commands()) {
            commands = 0;
            stop_requested = 1;
        }
        for (i = 0; i < option.clients; i++) {
            if (fds[i].revents) {
                ready(&clients[i]);
            }
        }
    }
    free(fds);
}

/* --- start ------------------------------------------------------------ */

static void usage(void)
{
    die("usage: load -p PORT -u PATH [-c CLIENTS] [-e END] [-k] [-s]"
        " [-n COUNT] [-d SECONDS] [-t HEADER] [-w SECONDS] [-i] [-v]");
}

static double number(const char *text, double least, double most)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= least && value <= most)) {
        die("not a number from %g to %g: %s", least, most, text);
    }
    return value;
}

static void parse(int argc, char **argv)
{
    int letter;

    while ((letter = getopt(argc, argv, "p:u:c:e:ksn:d:t:w:iv")) != -1) {
        switch (letter) {
        case 'p':
            option.port = (int)number(optarg, 1, 65535);
            break;
        case 'u':
            option.path = optarg;
            break;
        case 'c':
            option.clients = (int)number(optarg, 1, MAX_CLIENTS);
            break;
        case 'e':
            option.end = optarg;
            option.end_length = strlen(optarg);
            break;
        case 'k':
            option.keep_alive = 1;
            break;
        case 's':
            option.tls = 1;
            break;
        case 'n':
            option.count = (int64_t)number(optarg, 1, 1e15);
            break;
        case 'd':
            option.seconds = number(optarg, 0.001, 1e6);
            break;
        case 't':
            option.tag_header = optarg;
            break;
        case 'w':
            option.window = (int64_t)(number(optarg, 0.001, 1e6)
                                      * (double)NS_PER_S);
            break;
        case 'i':
            option.interactive = 1;
            break;
        case 'v':
            option.verbose = 1;
            break;
        default:
            usage();
        }
    }
    if (optind != argc || !option.port || option.end_length > MAX_END) {
        usage();
    }
}

static void build_request(void)
{
    int length = snprintf(request, sizeof(request),
                          "GET %s HTTP/1.%d\r\nHost: localhost\r\n%s\r\n",
                          option.path, option.keep_alive,
                          option.keep_alive ? "" : "Connection: close\r\n");

    if (length < 0 || (size_t)length >= sizeof(request)) {
        die("path too long");
    }
    request_length = (size_t)length;
}

static void set_signals(sigset_t *mask)
{
    struct sigaction action = { .sa_handler = on_signal };
    sigset_t blocked;

    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGINT);
    sigprocmask(SIG_BLOCK, &blocked, mask);
    sigdelset(mask, SIGTERM);
    sigdelset(mask, SIGINT);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int main(int argc, char **argv)
{
    sigset_t mask;
    int i;

    parse(argc, argv);
    build_request();
    set_signals(&mask);
    if (option.tls && transport_use_tls() != 0) {
        die("no TLS");
    }
    clients = calloc((size_t)option.clients, sizeof(*clients));
    if (!clients) {
        die("no memory");
    }
    for (i = 0; i < option.clients; i++) {
        clients[i].transport.fd = -1;
    }
    run(&mask);
    print_counts(1);
    free(marks.gaps);
    free(clients);
    return 0;
}
