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

#include <errno.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/transport.h"

static SSL_CTX *context; /* NULL: no TLS */

int transport_use_tls(void)
{
    context = SSL_CTX_new(TLS_client_method());
    if (!context) {
        return -1;
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE
                                  | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return 0;
}

/* What a call of OpenSSL returned, as send() and recv() would have. */
static ssize_t result(transport_t *t, int rv)
{
    if (rv > 0) {
        return rv;
    }
    switch (SSL_get_error(t->tls, rv)) {
    case SSL_ERROR_WANT_READ:
        t->wants = POLLIN;
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_WANT_WRITE:
        t->wants = POLLOUT;
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        if (errno == 0) {
            errno = ECONNRESET;
        }
        return -1;
    default:
        errno = EPROTO;
        return -1;
    }
}

/* What OpenSSL says of an error is in a queue, and in errno. */
static void forget_errors(void)
{
    ERR_clear_error();
    errno = 0;
}

int transport_open(transport_t *t, int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET };

    t->wants = POLLOUT;
    t->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (t->fd < 0) {
        return -1;
    }
    address.sin_port = htons((uint16_t)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect(t->fd, (struct sockaddr *)&address, sizeof(address)) == 0
                   || errno == EINPROGRESS
               ? 0
               : -1;
}

static int begin_tls(transport_t *t)
{
    t->tls = SSL_new(context);
    if (!t->tls || !SSL_set_fd(t->tls, t->fd)) {
        return ENOMEM;
    }
    return 0;
}

int transport_go_on(transport_t *t)
{
    int error = 0;
    socklen_t length = sizeof(error);

    if (!t->tls) {
        getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &length);
        if (error == 0 && context) {
            error = begin_tls(t);
        }
    }
    if (error == 0 && t->tls) {
        forget_errors();
        switch (result(t, SSL_connect(t->tls))) {
        case -1:
            return errno;
        case 0:
            return ECONNRESET;
        default:
            break;
        }
    }
    return error;
}

ssize_t transport_send(transport_t *t, const void *data, size_t length)
{
    ssize_t n;

    if (t->tls) {
        forget_errors();
        return result(t, SSL_write(t->tls, data, (int)length));
    }
    n = send(t->fd, data, length, 0);
    t->wants = POLLOUT;
    return n;
}

ssize_t transport_receive(transport_t *t, void *buffer, size_t size)
{
    ssize_t n;

    if (t->tls) {
        forget_errors();
        return result(t, SSL_read(t->tls, buffer, (int)size));
    }
    n = recv(t->fd, buffer, size, 0);
    t->wants = POLLIN;
    return n;
}

int transport_heard(const transport_t *t)
{
    return t->tls && BIO_number_read(SSL_get_rbio(t->tls)) > 0;
}

void transport_close(transport_t *t)
{
    if (t->tls) {
        SSL_free(t->tls);
        t->tls = NULL;
    }
    if (t->fd >= 0) {
        close(t->fd);
        t->fd = -1;
    }
}
