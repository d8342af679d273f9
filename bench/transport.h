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
 * @file bench/transport.h
 * @brief A client's connection to a port of 127.0.0.1 that never blocks: TCP,
 *        or TLS over it.
 *
 * Who uses it waits with poll() for what "wants" says before each call.  A
 * call that cannot go on fails with EAGAIN.  SIGPIPE must be ignored.
 */

#ifndef BENCH_TRANSPORT_H
#define BENCH_TRANSPORT_H

#include <sys/types.h>

typedef struct {
    int fd;             /* -1: none */
    struct ssl_st *tls; /* NULL: plain, or none */
    short wants;        /* POLLIN or POLLOUT */
} transport_t;

/**
 * Have all connections made from now on speak TLS.  The server's certificate
 * is not looked at: it is one for tests.
 * @return 0, or -1
 */
int transport_use_tls(void);

/**
 * Begin to connect.
 * @return 0, or -1 and errno is set: ECONNREFUSED nobody listens
 */
int transport_open(transport_t *t, int port);

/**
 * Go on with what transport_open() has begun.
 * @return 0 requests can be sent; or an errno: EAGAIN not yet, ECONNREFUSED
 *         nobody listens, another one
 */
int transport_go_on(transport_t *t);

/** As send(). */
ssize_t transport_send(transport_t *t, const void *data, size_t length);

/** As recv().  TLS that ends without a farewell has ended. */
ssize_t transport_receive(transport_t *t, void *buffer, size_t size);

/** Whether the server has said anything at all below what was received. */
int transport_heard(const transport_t *t);

/** Does nothing if there is no connection. */
void transport_close(transport_t *t);

#endif /* BENCH_TRANSPORT_H */
