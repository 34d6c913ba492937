/* For slurmd (LD_PRELOAD): a machine whose cgroup v2 is mounted beside v1 looks as if it had v2 only. slurmd 24.11 to 26.05 ends
   on such a machine ("Hybrid mode is not supported"): it reads lines of v1 in /proc/PID/cgroup. Readers of these files get the
   line of v2 only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int is_list(const char *path) {
    size_t length = path ? strlen(path) : 0;
    return length > 13 && !strncmp(path, "/proc/", 6) && !strcmp(path + length - 7, "/cgroup");
}

static int real_open(const char *path, int flags, int mode) {
    static int (*open_)(const char *, int, ...);
    if (!open_) open_ = dlsym(RTLD_NEXT, "open");
    return open_(path, flags, mode);
}

static int line_of_v2(const char *path) {
    char text[65536];
    int from = real_open(path, O_RDONLY, 0), to;
    size_t length = 0;
    ssize_t got;
    char *line;
    if (from < 0) return from;
    while ((got = read(from, text + length, sizeof text - 1 - length)) > 0) length += got;
    close(from);
    text[length] = 0;
    line = strstr(text, "0::");
    if (!line) line = text + length;
    to = memfd_create("cgroup", MFD_CLOEXEC);
    if (to < 0 || write(to, line, strlen(line)) < 0) return -1;
    lseek(to, 0, SEEK_SET);
    return to;
}

#define OPEN(name)                                                                  \
    int name(const char *path, int flags, ...) {                                    \
        va_list rest;                                                               \
        int mode;                                                                   \
        va_start(rest, flags);                                                      \
        mode = va_arg(rest, int);                                                   \
        va_end(rest);                                                               \
        if (is_list(path) && (flags & O_ACCMODE) == O_RDONLY) return line_of_v2(path); \
        return real_open(path, flags, mode);                                        \
    }
OPEN(open)
OPEN(open64)

#define FOPEN(name)                                                                 \
    FILE *name(const char *path, const char *mode) {                                \
        static FILE *(*fopen_)(const char *, const char *);                         \
        int file;                                                                   \
        if (!fopen_) fopen_ = dlsym(RTLD_NEXT, "fopen");                            \
        if (!is_list(path)) return fopen_(path, mode);                              \
        file = line_of_v2(path);                                                    \
        return file < 0 ? NULL : fdopen(file, mode);                                \
    }
FOPEN(fopen)
FOPEN(fopen64)
