/* Makes one system call of a process fail, by its number: loaded with LD_PRELOAD, told what to do by NTH_FAULT.

   NTH_FAULT = "KIND ERRNO N MODE REPORT UNDER": the Nth call of KIND fails with ERRNO; MODE is `once`, or `on` for that
   call and all after it. Of kinds that have paths, those in the folder UNDER count; of the others, all from the moment
   on that a file in it was opened, and the start of the event loop is left out. What was made to fail is appended to
   the file REPORT. Without the variable nothing is touched; it is looked for until it is there, so that a forked
   process can set it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static struct {
    char kind[16], mode[8], report[PATH_MAX], under[PATH_MAX];
    int error;
    long nth;
} plan;
static atomic_long n_counted;
static atomic_int armed; /* 0 not yet, 1 being read, 2 there */
static atomic_int begun; /* a file in UNDER was opened */
static atomic_int starting; /* an event loop is about to be made */
static __thread int inside; /* what the shim itself does is nobody's call */

static int is_armed(void) {
    if (atomic_load(&armed) == 2) return 1;
    const char *words = getenv("NTH_FAULT");
    if (!words || !*words) return 0;
    int expected = 0;
    if (!atomic_compare_exchange_strong(&armed, &expected, 1)) return atomic_load(&armed) == 2;
    plan.under[0] = 0;
    sscanf(words, "%15s %d %ld %7s %4095s %4095s", plan.kind, &plan.error, &plan.nth, plan.mode, plan.report, plan.under);
    atomic_store(&armed, 2);
    return 1;
}

static void tell(const char *call, const char *path) {
    char line[PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%s %s\n", call, path ? path : "");
    int fd = syscall(SYS_openat, AT_FDCWD, plan.report, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0) {
        syscall(SYS_write, fd, line, length);
        syscall(SYS_close, fd);
    }
}

/* The path of `path` seen from the folder `at`, whole: the program opens many files by names within a folder. */
static const char *whole_path(int at, const char *path, char *buffer) {
    if (path && path[0] == '/') return path;
    char link[64];
    if (at == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
    else snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, buffer, PATH_MAX - 1);
    if (length < 0) length = 0;
    buffer[length] = 0;
    if (path && *path) snprintf(buffer + length, PATH_MAX - length, "/%s", path);
    return buffer;
}

/* What lies in the folder UNDER. Of descriptors any other file counts too, but for Python's modules and for what the
   system says of itself, which is read where it can be. */
static int is_meant(const char *path) {
    size_t length = strlen(plan.under);
    if (strncmp(path, plan.under, length) == 0 && path[length] == '/') return atomic_store(&begun, 1), 1;
    if (strcmp(plan.kind, "descriptor") || !atomic_load(&begun)) return 0;
    return !strstr(path, ".py") && strncmp(path, "/proc/", 6) && strncmp(path, "/sys/", 5);
}

static int fails(const char *kind, const char *call, const char *path) {
    if (strcmp(kind, plan.kind)) return 0;
    long number = atomic_fetch_add(&n_counted, 1) + 1;
    if (number < plan.nth || (number > plan.nth && strcmp(plan.mode, "on"))) return 0;
    tell(call, path);
    errno = plan.error;
    return 1;
}

static int fails_at(const char *kind, const char *call, int at, const char *path) {
    char buffer[PATH_MAX];
    if (inside || !is_armed()) return 0;
    int is_kind = !strcmp(kind, plan.kind);
    if (!is_kind && strcmp(kind, "open")) return 0;
    const char *whole = whole_path(at, path, buffer);
    return is_meant(whole) && is_kind && fails(kind, call, whole);
}

/* An event loop, and there may be one to plan and one to ask, makes its own descriptors from an epoll_create1 to the next
   socketpair. libuv ends the process where it cannot have them, so the program looks before whether there are enough:
   that is another test's. */
static int starts_loop(const char *call) {
    if (!strcmp(call, "epoll_create1")) return atomic_store(&starting, 1), 1;
    if (!atomic_load(&starting)) return 0;
    if (!strcmp(call, "socketpair")) atomic_store(&starting, 0);
    return 1;
}

static int fails_anywhere(const char *kind, const char *call) {
    if (inside || !is_armed() || strcmp(kind, plan.kind) || starts_loop(call)) return 0;
    return atomic_load(&begun) && fails(kind, call, NULL);
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) { inside++; real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); inside--; }

/* A descriptor is what EMFILE is about: every call that makes one counts, wherever it leads. */
#define NO_DESCRIPTOR(name) fails_anywhere("descriptor", name)

#define OPEN(name, parameters, at, arguments) \
    int name parameters { \
        REAL(name) \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); } \
        if (fails_at("descriptor", #name, at, path) || fails_at("open", #name, at, path)) return -1; \
        return real arguments; \
    }
OPEN(open, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPEN(openat, (int at, const char *path, int flags, ...), at, (at, path, flags, mode))
OPEN(openat64, (int at, const char *path, int flags, ...), at, (at, path, flags, mode))

/* `on` is a disk that has filled up: the first write that finds it full still gets half of its bytes written. */
static int writes_half(int fd, const char *call, size_t n_bytes) {
    if (inside || !is_armed() || strcmp("write", plan.kind) || strcmp(plan.mode, "on") || n_bytes < 2) return 0;
    char buffer[PATH_MAX];
    const char *path = whole_path(fd, NULL, buffer);
    if (!is_meant(path) || atomic_load(&n_counted) + 1 != plan.nth) return 0;
    atomic_fetch_add(&n_counted, 1);
    tell(call, path);
    return 1;
}
ssize_t write(int fd, const void *data, size_t size) {
    REAL(write)
    if (writes_half(fd, "half a write", size)) return real(fd, data, size / 2);
    return fails_at("write", "write", fd, NULL) ? -1 : real(fd, data, size);
}
ssize_t writev(int fd, const struct iovec *parts, int n) {
    REAL(writev)
    return fails_at("write", "writev", fd, NULL) ? -1 : real(fd, parts, n);
}
#define ON_DESCRIPTOR(type, name, kind, parameters, arguments) \
    type name parameters { \
        REAL(name) \
        return fails_at(kind, #name, fd, NULL) ? -1 : real arguments; \
    }
ON_DESCRIPTOR(ssize_t, pwrite, "write", (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
ON_DESCRIPTOR(ssize_t, pwrite64, "write", (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
ON_DESCRIPTOR(ssize_t, read, "read", (int fd, void *data, size_t size), (fd, data, size))
ON_DESCRIPTOR(ssize_t, pread, "read", (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
ON_DESCRIPTOR(ssize_t, pread64, "read", (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
ON_DESCRIPTOR(int, fsync, "sync", (int fd), (fd))
ON_DESCRIPTOR(int, fdatasync, "sync", (int fd), (fd))
ON_DESCRIPTOR(int, ftruncate, "truncate", (int fd, off_t size), (fd, size))
ON_DESCRIPTOR(int, ftruncate64, "truncate", (int fd, off64_t size), (fd, size))
ON_DESCRIPTOR(int, flock, "lock", (int fd, int what), (fd, what))

#define FCNTL(name) \
    int name(int fd, int command, ...) { \
        REAL(name) \
        va_list more; va_start(more, command); void *argument = va_arg(more, void *); va_end(more); \
        int locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW; \
        if (locks && fails_at("lock", #name, fd, NULL)) return -1; \
        if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && NO_DESCRIPTOR(#name)) return -1; \
        return real(fd, command, argument); \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

#define ON_PATH(name, kind, at, path, parameters, arguments) \
    int name parameters { \
        REAL(name) \
        return fails_at(kind, #name, at, path) ? -1 : real arguments; \
    }
ON_PATH(rename, "rename", AT_FDCWD, to, (const char *from, const char *to), (from, to))
ON_PATH(renameat, "rename", at, to, (int a, const char *from, int at, const char *to), (a, from, at, to))
ON_PATH(renameat2, "rename", at, to, (int a, const char *from, int at, const char *to, unsigned f), (a, from, at, to, f))
ON_PATH(link, "rename", AT_FDCWD, to, (const char *from, const char *to), (from, to))
ON_PATH(linkat, "rename", at, to, (int a, const char *from, int at, const char *to, int f), (a, from, at, to, f))
ON_PATH(mkdir, "mkdir", AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
ON_PATH(mkdirat, "mkdir", at, path, (int at, const char *path, mode_t mode), (at, path, mode))
ON_PATH(unlink, "unlink", AT_FDCWD, path, (const char *path), (path))
ON_PATH(unlinkat, "unlink", at, path, (int at, const char *path, int flags), (at, path, flags))
ON_PATH(rmdir, "unlink", AT_FDCWD, path, (const char *path), (path))
ON_PATH(stat, "stat", AT_FDCWD, path, (const char *restrict path, struct stat *restrict s), (path, s))
ON_PATH(stat64, "stat", AT_FDCWD, path, (const char *restrict path, struct stat64 *restrict s), (path, s))
ON_PATH(lstat, "stat", AT_FDCWD, path, (const char *restrict path, struct stat *restrict s), (path, s))
ON_PATH(lstat64, "stat", AT_FDCWD, path, (const char *restrict path, struct stat64 *restrict s), (path, s))
ON_PATH(fstatat, "stat", at, path, (int at, const char *restrict path, struct stat *restrict s, int f), (at, path, s, f))
ON_PATH(fstatat64, "stat", at, path, (int at, const char *restrict path, struct stat64 *restrict s, int f), (at, path, s, f))

#define MAKES_DESCRIPTORS(name, parameters, arguments) \
    int name parameters { \
        REAL(name) \
        return NO_DESCRIPTOR(#name) ? -1 : real arguments; \
    }
MAKES_DESCRIPTORS(accept, (int fd, struct sockaddr *restrict a, socklen_t *restrict n), (fd, a, n))
MAKES_DESCRIPTORS(accept4, (int fd, struct sockaddr *restrict a, socklen_t *restrict n, int f), (fd, a, n, f))
MAKES_DESCRIPTORS(pipe, (int ends[2]), (ends))
MAKES_DESCRIPTORS(pipe2, (int ends[2], int flags), (ends, flags))
MAKES_DESCRIPTORS(dup, (int fd), (fd))
int socket(int domain, int type, int protocol) {
    REAL(socket)
    return NO_DESCRIPTOR("socket") || fails_anywhere("socket", "socket") ? -1 : real(domain, type, protocol);
}
MAKES_DESCRIPTORS(socketpair, (int domain, int type, int protocol, int ends[2]), (domain, type, protocol, ends))
int epoll_create1(int flags);
MAKES_DESCRIPTORS(epoll_create1, (int flags), (flags))
int eventfd(unsigned initial, int flags);
MAKES_DESCRIPTORS(eventfd, (unsigned initial, int flags), (initial, flags))

int connect(int fd, const struct sockaddr *address, socklen_t size) {
    REAL(connect)
    int local = address->sa_family == AF_INET || address->sa_family == AF_INET6;
    return local && fails_anywhere("connect", "connect") ? -1 : real(fd, address, size);
}

pid_t fork(void) {
    REAL(fork)
    return fails_anywhere("process", "fork") ? -1 : real();
}
/* The caller of vfork must not return; its place is taken by fork, which may. */
pid_t vfork(void) {
    if (fails_anywhere("process", "vfork")) return -1;
    inside++;
    pid_t child = fork();
    inside--;
    return child;
}
#define SPAWN(name) \
    int name(pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *restrict actions, \
             const posix_spawnattr_t *restrict attributes, char *const argv[restrict], char *const envp[restrict]) { \
        REAL(name) \
        return fails_anywhere("process", #name) ? plan.error : real(pid, path, actions, attributes, argv, envp); \
    }
SPAWN(posix_spawn)
SPAWN(posix_spawnp)
int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*start)(void *),
                   void *restrict argument) {
    REAL(pthread_create)
    return fails_anywhere("thread", "pthread_create") ? plan.error : real(thread, attributes, start, argument);
}
