/* Counts the calls that change files below one folder, and at a chosen one ends the process, refuses
 * the call or, all along, writes down what was called: kills at every call, failing writes, and the
 * journal from which a power cut is replayed. Loaded with LD_PRELOAD, idle until calls_arm.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC, RENAME, UNLINK, RESIZE, CREATE, MKDIR, RMDIR };

static char folder[PATH_MAX];
static size_t folder_length;
static long unarmed, *counted = &unarmed, kill_at, fail_at;
static int failure, journal = -1, torn;

/* count: where calls are counted; kill, fail: numbers of calls from 1, 0 for none; is_torn: a write
 * that ends the process has written half; error: errno of the refused call; log: descriptor of the
 * journal, -1 for none. */
void calls_arm(const char *below, long *count, long kill, int is_torn, long fail, int error,
               int log) {
  folder_length = strlen(below);
  memcpy(folder, below, folder_length + 1);
  counted = count;
  *counted = 0;
  kill_at = kill;
  torn = is_torn;
  fail_at = fail;
  failure = error;
  journal = log;
}

static int below(const char *path) {
  return folder_length && strncmp(path, folder, folder_length) == 0 && path[folder_length] == '/';
}

static void absolute(int at, const char *path, char *out) {
  if (path[0] == '/') {
    snprintf(out, PATH_MAX, "%s", path);
    return;
  }
  char base[PATH_MAX] = "", link[64];
  snprintf(link, sizeof link, at == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", at);
  ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, base, sizeof base - 1);
  base[length > 0 ? length : 0] = 0;
  if (strlen(base) + strlen(path) + 2 > PATH_MAX) {
    out[0] = 0;
    return;
  }
  strcpy(out, base);
  strcat(out, "/");
  strcat(out, path);
}

static int of_descriptor(int file, char *out) {
  char link[64];
  if (!folder_length || file < 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
  out[length > 0 ? length : 0] = 0;
  return length > 0 && below(out);
}

static void note(int kind, const char *one, const char *other, int64_t place, const void *data,
                 int64_t size) {
  if (journal < 0) return;
  int64_t head[5] = {kind, (int64_t)strlen(one), (int64_t)strlen(other), place, size};
  syscall(SYS_write, journal, head, sizeof head);
  syscall(SYS_write, journal, one, strlen(one));
  syscall(SYS_write, journal, other, strlen(other));
  for (int64_t done = 0; data && done < size;) {
    ssize_t count = syscall(SYS_write, journal, (const char *)data + done, size - done);
    if (count <= 0) break;
    done += count;
  }
}

static void end(void) {
  syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
}

/* Whether the call is to be refused; does not return from the last one. */
static int reached(void) {
  ++*counted;
  if (*counted == kill_at && !torn) end();
  if (*counted == fail_at) {
    errno = failure;
    return 1;
  }
  return 0;
}

#define REAL(name, result, ...) \
  static result (*real)(__VA_ARGS__); \
  if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

ssize_t write(int file, const void *data, size_t size) {
  REAL(write, ssize_t, int, const void *, size_t);
  char path[PATH_MAX];
  if (!of_descriptor(file, path)) return real(file, data, size);
  if (reached()) return -1;
  if (*counted == kill_at) {
    real(file, data, size / 2);
    end();
  }
  int64_t place = lseek(file, 0, SEEK_CUR);
  if (fcntl(file, F_GETFL) & O_APPEND) {
    struct stat found;
    fstat(file, &found);
    place = found.st_size;
  }
  ssize_t done = real(file, data, size);
  if (done > 0) note(WRITE, path, "", place, data, done);
  return done;
}

static ssize_t write_at(ssize_t (*real)(int, const void *, size_t, off_t), int file,
                        const void *data, size_t size, off_t place) {
  char path[PATH_MAX];
  if (!of_descriptor(file, path)) return real(file, data, size, place);
  if (reached()) return -1;
  if (*counted == kill_at) {
    real(file, data, size / 2, place);
    end();
  }
  ssize_t done = real(file, data, size, place);
  if (done > 0) note(WRITE, path, "", place, data, done);
  return done;
}

ssize_t pwrite(int file, const void *data, size_t size, off_t place) {
  REAL(pwrite, ssize_t, int, const void *, size_t, off_t);
  return write_at(real, file, data, size, place);
}

ssize_t pwrite64(int file, const void *data, size_t size, off_t place) {
  REAL(pwrite64, ssize_t, int, const void *, size_t, off_t);
  return write_at(real, file, data, size, place);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
  REAL(writev, ssize_t, int, const struct iovec *, int);
  char path[PATH_MAX];
  if (!of_descriptor(file, path)) return real(file, parts, count);
  ssize_t total = 0;
  for (int i = 0; i < count; i++) {
    if (parts[i].iov_len == 0) continue;
    ssize_t done = write(file, parts[i].iov_base, parts[i].iov_len);
    if (done < 0) return total ? total : -1;
    total += done;
    if ((size_t)done < parts[i].iov_len) break;
  }
  return total;
}

static int sync_of(int (*real)(int), int file) {
  char path[PATH_MAX] = "";
  if (!of_descriptor(file, path)) {
    /* the folder itself has no slash behind it */
    if (folder_length && strcmp(path, folder) == 0) note(SYNC, path, "", 0, NULL, 0);
    return real(file);
  }
  if (reached()) return -1;
  if (*counted == kill_at) end();
  note(SYNC, path, "", 0, NULL, 0);
  return real(file);
}

int fsync(int file) {
  REAL(fsync, int, int);
  return sync_of(real, file);
}

int fdatasync(int file) {
  REAL(fdatasync, int, int);
  return sync_of(real, file);
}

void sync(void) {
  REAL(sync, void, void);
  note(SYNC, "", "", 0, NULL, 0);
  real();
}

static int changed(int at, const char *path, int other_at, const char *other,
                   char *one, char *two) {
  absolute(at, path, one);
  two[0] = 0;
  if (other) absolute(other_at, other, two);
  return folder_length && (below(one) || below(two));
}

#define CHANGE(kind, at, path, other_at, other, call) \
  char one[PATH_MAX], two[PATH_MAX]; \
  if (!changed(at, path, other_at, other, one, two)) return call; \
  if (reached()) return -1; \
  if (*counted == kill_at) end(); \
  int done = call; \
  if (done == 0) note(kind, one, two, 0, NULL, 0); \
  return done

int rename(const char *from, const char *to) {
  REAL(rename, int, const char *, const char *);
  CHANGE(RENAME, AT_FDCWD, from, AT_FDCWD, to, real(from, to));
}

int renameat(int at, const char *from, int other_at, const char *to) {
  REAL(renameat, int, int, const char *, int, const char *);
  CHANGE(RENAME, at, from, other_at, to, real(at, from, other_at, to));
}

int unlink(const char *path) {
  REAL(unlink, int, const char *);
  CHANGE(UNLINK, AT_FDCWD, path, 0, NULL, real(path));
}

int unlinkat(int at, const char *path, int flags) {
  REAL(unlinkat, int, int, const char *, int);
  CHANGE(flags & AT_REMOVEDIR ? RMDIR : UNLINK, at, path, 0, NULL, real(at, path, flags));
}

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir, int, const char *, mode_t);
  CHANGE(MKDIR, AT_FDCWD, path, 0, NULL, real(path, mode));
}

int rmdir(const char *path) {
  REAL(rmdir, int, const char *);
  CHANGE(RMDIR, AT_FDCWD, path, 0, NULL, real(path));
}

static int resized(int (*real)(int, off_t), int file, off_t size) {
  char path[PATH_MAX];
  if (!of_descriptor(file, path)) return real(file, size);
  if (reached()) return -1;
  if (*counted == kill_at) end();
  int done = real(file, size);
  if (done == 0) note(RESIZE, path, "", size, NULL, 0);
  return done;
}

int ftruncate(int file, off_t size) {
  REAL(ftruncate, int, int, off_t);
  return resized(real, file, size);
}

int ftruncate64(int file, off_t size) {
  REAL(ftruncate64, int, int, off_t);
  return resized(real, file, size);
}

static int reserved(int (*real)(int, off_t, off_t), int file, off_t place, off_t size) {
  char path[PATH_MAX];
  if (!of_descriptor(file, path)) return real(file, place, size);
  if (reached()) return failure; /* posix_fallocate returns the error */
  if (*counted == kill_at) end();
  int done = real(file, place, size);
  if (done == 0) {
    struct stat found;
    fstat(file, &found);
    note(RESIZE, path, "", found.st_size, NULL, 0);
  }
  return done;
}

int posix_fallocate(int file, off_t place, off_t size) {
  REAL(posix_fallocate, int, int, off_t, off_t);
  return reserved(real, file, place, size);
}

int posix_fallocate64(int file, off_t place, off_t size) {
  REAL(posix_fallocate64, int, int, off_t, off_t);
  return reserved(real, file, place, size);
}

static int opened(int (*real)(int, const char *, int, ...), int at, const char *path, int flags,
                  mode_t mode) {
  char one[PATH_MAX];
  struct stat found;
  if (!folder_length || !(flags & (O_CREAT | O_TRUNC))) return real(at, path, flags, mode);
  absolute(at, path, one);
  if (!below(one)) return real(at, path, flags, mode);
  int there = syscall(SYS_newfstatat, AT_FDCWD, one, &found, 0) == 0;
  if (there && !(flags & O_TRUNC)) return real(at, path, flags, mode);
  if (reached()) return -1;
  if (*counted == kill_at) end();
  int file = real(at, path, flags, mode);
  if (file >= 0) {
    if (there)
      note(RESIZE, one, "", 0, NULL, 0);
    else
      note(CREATE, one, "", 0, NULL, 0);
  }
  return file;
}

static int system_open(int at, const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return syscall(SYS_openat, at, path, flags, mode);
}

#define MODE(flags) \
  mode_t mode = 0; \
  if (flags & (O_CREAT | __O_TMPFILE)) { \
    va_list rest; \
    va_start(rest, flags); \
    mode = va_arg(rest, mode_t); \
    va_end(rest); \
  }

int open(const char *path, int flags, ...) {
  MODE(flags)
  return opened(system_open, AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  MODE(flags)
  return opened(system_open, AT_FDCWD, path, flags, mode);
}

int openat(int at, const char *path, int flags, ...) {
  MODE(flags)
  return opened(system_open, at, path, flags, mode);
}

int openat64(int at, const char *path, int flags, ...) {
  MODE(flags)
  return opened(system_open, at, path, flags, mode);
}
