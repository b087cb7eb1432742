#ifndef FASTPIPE_H
#define FASTPIPE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Fast pipes on Linux, whose data is always correct. Link with -lfastpipe (pkg-config fastpipe).
 *
 * Functions that return an int, an ssize_t or an int64_t return a negative error number on failure, of which
 * fastpipe_error() has the message. Each handle may be used by one thread at a time; different handles by
 * different threads. No function changes a signal's disposition: as with write(2), SIGPIPE ends the
 * program if a pipe's reader is gone, unless it is ignored. */

/**
 * How a writer sends its bytes. All are right for every reader, except FASTPIPE_DRAINED.
 */
typedef enum {
  /**
   * The fastest of the others for this stream and its reader, found on the stream itself, except
   * FASTPIPE_DRAINED, and FASTPIPE_COW_CHECKED unless FASTPIPE_ALLOW_CLONE is set. The default.
   */
  FASTPIPE_AUTO = 0,
  /**
   * write(2), in pieces of the size that is fastest for a pipe.
   */
  FASTPIPE_COPY = 1,
  /**
   * vmsplice(2), from pages that are never written again.
   */
  FASTPIPE_FRESH = 2,
  /**
   * vmsplice(2), from pages that are written again when nothing refers to them, as found out by
   * clone(2). Only for small processes that do little else.
   */
  FASTPIPE_COW_CHECKED = 3,
  /**
   * vmsplice(2), from pages that are written again when they have left the pipe. By this choice you
   * assert that every reader copies, by read(2) for instance, and never passes pages on by splice(2) or
   * tee(2), as some versions of cat and pv do: they would read newer bytes in place of older ones.
   */
  FASTPIPE_DRAINED = 4,
} fastpipe_method;

/**
 * How to wait while a pipe or ring is full or empty.
 */
typedef enum {
  /**
   * Sleep in the system call. The default.
   */
  FASTPIPE_WAIT_BLOCK = 0,
  /**
   * Call poll(2) before each attempt.
   */
  FASTPIPE_WAIT_POLL = 1,
  /**
   * Retry at once, without limit: both ends need a processor of their own.
   */
  FASTPIPE_WAIT_SPIN = 2,
  /**
   * Retry for a while, then sleep.
   */
  FASTPIPE_WAIT_ADAPTIVE = 3,
  /**
   * Don't wait: fail with -EAGAIN.
   */
  FASTPIPE_WAIT_NEVER = 4,
} fastpipe_wait;

/**
 * Flags of fastpipe_writer_options.
 */
typedef enum {
  /**
   * Leave the pipe's capacity as it is.
   */
  FASTPIPE_KEEP_CAPACITY = 1,
  /**
   * Prepare for zero copy at once, rather than after the first 128 KiB.
   */
  FASTPIPE_AT_ONCE = 2,
  /**
   * FASTPIPE_AUTO may try FASTPIPE_COW_CHECKED.
   */
  FASTPIPE_ALLOW_CLONE = 4,
  /**
   * A signal whose handler was set without SA_RESTART ends a wait with -EINTR, as that of write(2), though
   * sometimes no signal came. If fastpipe_writer_write had accepted bytes by then, the next call returns -EINTR, at
   * once. Without this flag, and under FASTPIPE_WAIT_SPIN, waits go on.
   */
  FASTPIPE_INTERRUPTIBLE = 8,
} fastpipe_writer_flags;

/**
 * Flags of fastpipe_reader_options.
 */
typedef enum {
  /**
   * A signal whose handler was set without SA_RESTART ends a wait with -EINTR, as that of read(2), except
   * under FASTPIPE_WAIT_SPIN. Without this flag waits go on.
   */
  FASTPIPE_READER_INTERRUPTIBLE = 1,
} fastpipe_reader_flags;

/**
 * Flags of fastpipe_copy_options.
 */
typedef enum {
  /**
   * Only read and write: for inputs whose pages may change while they are in a pipe, as those of a file
   * that is being modified, and for pipes that may have packets (O_DIRECT) after other bytes.
   */
  FASTPIPE_COPY_BYTES = 1,
  /**
   * Leave the output pipe's capacity as it is.
   */
  FASTPIPE_COPY_KEEP_CAPACITY = 2,
} fastpipe_copy_flags;

/**
 * The two ends of a ring.
 */
typedef enum {
  /**
   * Puts bytes in.
   */
  FASTPIPE_PRODUCER = 1,
  /**
   * Takes bytes out.
   */
  FASTPIPE_CONSUMER = 2,
} fastpipe_role;

/**
 * State of the process at the other end of a ring.
 */
typedef enum {
  /**
   * None of the others, as far as is known.
   */
  FASTPIPE_PEER_RUNNING = 0,
  /**
   * Stopped by a signal or a debugger. It may continue.
   */
  FASTPIPE_PEER_STOPPED = 1,
  /**
   * It has freed its end.
   */
  FASTPIPE_PEER_CLOSED = 2,
  /**
   * It has died without doing so.
   */
  FASTPIPE_PEER_DIED = 3,
} fastpipe_peer;

/**
 * Buffered input with few, large reads, from a pipe or anything else that can be read. One thread may
 * use it at a time.
 */
typedef struct fastpipe_reader fastpipe_reader;

/**
 * One end of a ring buffer in memory that two processes share. One thread may use an end at a time. A
 * forked child must not use its parent's ends, except to free them: it takes one over by
 * fastpipe_ring_accept or _from_fd. The other process can write anything into the ring at any time:
 * copy bytes of strangers before you check them.
 */
typedef struct fastpipe_ring fastpipe_ring;

/**
 * Output to a pipe, or to anything else that can be written. One thread may use it at a time; it may be
 * passed from thread to thread. A forked child must not use it, except to free it: until then, or until it ends or
 * runs another program, the reader sees no end of the data. Memory lent before the fork may read as zeroes there.
 */
typedef struct fastpipe_writer fastpipe_writer;

/**
 * Settings of a writer. Zero means the default for every field but the first.
 */
typedef struct {
  /**
   * sizeof(fastpipe_writer_options).
   */
  size_t size;
  /**
   * One of fastpipe_method.
   */
  uint32_t method;
  /**
   * One of fastpipe_wait.
   */
  uint32_t wait;
  /**
   * Any of fastpipe_writer_flags.
   */
  uint64_t flags;
  /**
   * Capacity to enlarge the pipe to, in bytes; default 1 MiB.
   */
  uint64_t capacity;
  /**
   * Usual length of a loan, in bytes.
   */
  uint64_t loan;
  /**
   * Memory to lend from, in bytes.
   */
  uint64_t region;
  /**
   * Bytes of pages that readers may hold before the writer copies.
   */
  uint64_t max_held;
} fastpipe_writer_options;

/**
 * What a writer has done.
 */
typedef struct {
  /**
   * sizeof(fastpipe_report), set by the caller.
   */
  size_t size;
  /**
   * The method in use: one of fastpipe_method, never FASTPIPE_AUTO.
   */
  uint32_t method;
  /**
   * 1 if pages are handed over rather than copied.
   */
  uint32_t zero_copy;
  /**
   * Bytes sent.
   */
  uint64_t bytes;
  /**
   * Of these, bytes that were handed over rather than copied.
   */
  uint64_t zero_copy_bytes;
  /**
   * System calls.
   */
  uint64_t syscalls;
  /**
   * Attempts that found the pipe full.
   */
  uint64_t would_blocks;
} fastpipe_report;

/**
 * Settings of a reader. Zero means the default for every field but the first.
 */
typedef struct {
  /**
   * sizeof(fastpipe_reader_options).
   */
  size_t size;
  /**
   * One of fastpipe_wait.
   */
  uint32_t wait;
  /**
   * Any of fastpipe_reader_flags.
   */
  uint32_t flags;
  /**
   * Size of the buffer, in bytes; default 256 KiB.
   */
  uint64_t buffer;
  /**
   * Capacity to enlarge the pipe to, in bytes; by default it is left as it is. Don't, if the writer uses
   * vmsplice(2) and relies on the pipe's size.
   */
  uint64_t capacity;
} fastpipe_reader_options;

/**
 * Progress of a copy.
 */
typedef struct {
  /**
   * sizeof(fastpipe_progress), as the library knows it.
   */
  size_t size;
  /**
   * Bytes taken from the input.
   */
  uint64_t taken;
  /**
   * Bytes given to the output.
   */
  uint64_t given;
  /**
   * Nanoseconds since the start.
   */
  uint64_t elapsed_ns;
} fastpipe_progress;

/**
 * Called during a copy, with the options' data: at the start, at the interval, and at the end. A copy is ended
 * by any other result than 0.
 */
typedef int (*fastpipe_progress_function)(void *data, const fastpipe_progress *progress);

/**
 * Settings of a copy. Zero means the default for every field but the first.
 */
typedef struct {
  /**
   * sizeof(fastpipe_copy_options).
   */
  size_t size;
  /**
   * One of fastpipe_wait.
   */
  uint32_t wait;
  /**
   * Any of fastpipe_copy_flags.
   */
  uint32_t flags;
  /**
   * Ends after this many bytes; default at the end of the data.
   */
  uint64_t limit;
  /**
   * Nanoseconds between two calls of progress; default 100 ms.
   */
  uint64_t interval_ns;
  /**
   * Called meanwhile, in this thread, if not NULL.
   */
  fastpipe_progress_function progress;
  /**
   * For progress.
   */
  void *data;
} fastpipe_copy_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the version of the library, as "0.1.0".
 */
const char *fastpipe_version(void);

/**
 * Returns what went wrong in the last function of this library that failed in the calling thread, as one
 * line without a newline; "" if none has. Valid until the next one fails in this thread. Never NULL.
 */
const char *fastpipe_error(void);

/**
 * Creates a writer to fd, which remains the caller's: close it after fastpipe_writer_free, and not before.
 * options may be NULL. Sets *writer; on failure to NULL.
 *
 * Returns 0; -EBADF for a negative fd; -EINVAL or -E2BIG for options that are not valid; -ENOMEM.
 */
int fastpipe_writer_open(fastpipe_writer **writer,
                         int fd,
                         const fastpipe_writer_options *options);

/**
 * Lends memory for the next bytes of the stream: at least at_least bytes, of which 0 means as many as
 * suit. Sets *memory to its first byte and *length to its length. It belongs to the caller until the next call with
 * this writer, whatever that is. It holds zeroes or old bytes.
 *
 * Returns 0; -EAGAIN under FASTPIPE_WAIT_NEVER while bytes committed before can't be sent; errors of
 * sending these; -ENOMEM.
 */
int fastpipe_writer_lend(fastpipe_writer *writer,
                         size_t at_least,
                         void **memory,
                         size_t *length);

/**
 * Sends the first n bytes of the memory lent, which is the caller's no more. They have been given to the
 * kernel when it returns, except under FASTPIPE_WAIT_NEVER, where they may be queued.
 *
 * Returns 0; -EINTR under FASTPIPE_INTERRUPTIBLE, with bytes queued; -EINVAL, and nothing is sent, if nothing is lent or fewer bytes are; -EPIPE if there is no
 * reader (after SIGPIPE, unless that is ignored); other errors of write(2) and vmsplice(2), after which
 * the bytes that were not sent are kept, and the next call tries again.
 */
int fastpipe_writer_commit(fastpipe_writer *writer,
                           size_t n);

/**
 * Writes length bytes: buffers them, and sends full buffers.
 *
 * Returns the number of bytes accepted, which is less than length only under FASTPIPE_WAIT_NEVER or
 * FASTPIPE_INTERRUPTIBLE, or before an error that the next call returns; -EAGAIN under FASTPIPE_WAIT_NEVER if none could be; errors as of
 * fastpipe_writer_commit.
 */
ssize_t fastpipe_writer_write(fastpipe_writer *writer,
                              const void *data,
                              size_t length);

/**
 * Sends what is buffered. Does not wait until it has been read.
 *
 * Returns 0, or errors as of fastpipe_writer_commit.
 */
int fastpipe_writer_flush(fastpipe_writer *writer);

/**
 * Sends what is buffered and lets go of the output, so that the reader sees the end of the data when
 * the caller closes the descriptor. Only fastpipe_writer_report, _describe, _discard and _free can follow. To
 * finish again does nothing, and so does to discard.
 *
 * Returns 0, or errors as of fastpipe_writer_commit, after which it can be called again.
 */
int fastpipe_writer_finish(fastpipe_writer *writer);

/**
 * Fills *report, whose size the caller has set, with what the writer has done. Ends the loan.
 *
 * Returns 0, or -EINVAL.
 */
int fastpipe_writer_report(fastpipe_writer *writer, fastpipe_report *report);

/**
 * Puts how the writer sends, and why it copies, if it does, into the buffer of size bytes, as far as
 * there is room, with a zero byte at its end: "vmsplice, fresh pages" or "write: the output is a regular
 * file". Ends the loan.
 *
 * Returns the length of the whole text, without the zero byte, as snprintf(3) does, or -EINVAL.
 */
int fastpipe_writer_describe(fastpipe_writer *writer,
                             char *buffer,
                             size_t size);

/**
 * Gives up what was not sent, and lets go of the output, without waiting: as after a call that a signal ended
 * (FASTPIPE_INTERRUPTIBLE). Ends the loan. Only fastpipe_writer_free can follow. Does nothing if the writer is finished.
 *
 * Returns 0, or -EINVAL for NULL.
 */
int fastpipe_writer_discard(fastpipe_writer *writer);

/**
 * Frees the writer. If it is neither finished nor discarded, sends what is buffered and ignores errors; not after a
 * call that failed, except with -EAGAIN or -EINTR. After a call that a signal ended it sends until the reader takes
 * nothing for a second. NULL is allowed.
 */
void fastpipe_writer_free(fastpipe_writer *writer);

/**
 * Creates a reader from fd, which remains the caller's: close it after fastpipe_reader_free, and not
 * before. options may be NULL. Sets *reader; on failure to NULL.
 *
 * Returns 0; -EBADF; -EINVAL or -E2BIG for options that are not valid; -ENOMEM.
 */
int fastpipe_reader_open(fastpipe_reader **reader,
                         int fd,
                         const fastpipe_reader_options *options);

/**
 * Reads at least one byte and at most size bytes into the buffer.
 *
 * Returns the number of bytes; 0 at the end of the data, or if size is 0; -EAGAIN under
 * FASTPIPE_WAIT_NEVER if there are none; -EINTR under FASTPIPE_READER_INTERRUPTIBLE; errors of read(2).
 */
ssize_t fastpipe_reader_read(fastpipe_reader *reader,
                             void *buffer,
                             size_t size);

/**
 * Shows the bytes that were read and not consumed yet; reads more if there are none. Sets *data and *length,
 * which is 0 at the end of the data. They are valid until the next call with this reader.
 *
 * Returns 0, or errors as of fastpipe_reader_read.
 */
int fastpipe_reader_fill(fastpipe_reader *reader,
                         const void **data,
                         size_t *length);

/**
 * Consumes the first n of the bytes shown.
 *
 * Returns 0, or -EINVAL if there are fewer.
 */
int fastpipe_reader_consume(fastpipe_reader *reader, size_t n);

/**
 * Frees the reader, with the bytes that were read and not consumed. NULL is allowed.
 */
void fastpipe_reader_free(fastpipe_reader *reader);

/**
 * Moves bytes from any descriptor to any other until the input ends, by splice(2), sendfile(2),
 * copy_file_range(2), or reads and writes, whichever is fastest between the two. options may be NULL.
 *
 * Returns the number of bytes given to the output, also if progress ended it; -EBADF; -EINVAL for options
 * that are not valid, or an output that is also the input; -EPIPE if the output has no reader; errors of
 * the calls it makes. If bytes were taken that the output did not get, fastpipe_copy_undelivered has them.
 */
int64_t fastpipe_copy(int input,
                      int output,
                      const fastpipe_copy_options *options);

/**
 * Sets *data and *length to the bytes that the last fastpipe_copy of this thread took from its input, and
 * that its output did not get: it failed, progress ended the copy, or they lie beyond the limit (of a pipe all
 * may have to be read at once). *length is 0 if there are none: a file's
 * position is set back instead. Valid until the next fastpipe_copy of this thread.
 *
 * Returns 0, or -EINVAL.
 */
int fastpipe_copy_undelivered(const void **data,
                              size_t *length);

/**
 * Creates a ring of capacity bytes, rounded up to whole pages, with both of its ends in this
 * process: for two threads, or to pass one on by fastpipe_ring_into_fd. Sets *producer and *consumer; on failure to
 * NULL.
 *
 * Returns 0; -EINVAL if the capacity is 0 or more than 1 GiB; errors of memfd_create(2), fallocate(2)
 * and mmap(2).
 */
int fastpipe_ring_pair(fastpipe_ring **producer,
                       fastpipe_ring **consumer,
                       size_t capacity);

/**
 * Creates a ring, keeps the end that role names (one of fastpipe_role), and passes the other one to the
 * process at the other end of a Unix stream socket, which calls fastpipe_ring_accept. Waits until it has, or for the
 * socket's receive timeout. The socket remains the caller's; each end keeps a duplicate, by which it
 * notices the other's death. Sets *ring; on failure to NULL.
 *
 * Returns 0; -EINVAL; -ECONNREFUSED if the other process did not take it; -ECONNABORTED if it closed
 * the socket; -ETIMEDOUT; errors as of fastpipe_ring_pair.
 */
int fastpipe_ring_offer(fastpipe_ring **ring,
                        int socket_fd,
                        uint32_t role_kept,
                        size_t capacity);

/**
 * Takes the end that role names, of the ring that the process at the other end of a Unix stream socket
 * offers. Waits for the offer, or for the socket's receive timeout. Refuses a ring of more than limit
 * bytes; 0 means 64 MiB. Sets *ring; on failure to NULL.
 *
 * Returns 0; -EINVAL; -EPROTO unless what is offered is that end of a ring that is safe to use, of
 * at most limit bytes; -EBUSY if that end is in use; -ECONNABORTED if the other process closed the socket;
 * -ETIMEDOUT; -EMFILE.
 */
int fastpipe_ring_accept(fastpipe_ring **ring,
                         int socket_fd,
                         uint32_t role_taken,
                         size_t limit);

/**
 * Takes the end that role names, of the ring in the file fd, which was inherited or received: as standard
 * input, for instance. The descriptor remains the caller's, who may close it. Sets *ring; on failure to NULL.
 *
 * Returns 0; -EINVAL; -EBADF; -EPROTO unless it is that end of a ring that is safe to use; -EBUSY if
 * that end is in use; errors of mmap(2).
 */
int fastpipe_ring_from_fd(fastpipe_ring **ring,
                          int fd,
                          uint32_t role_taken);

/**
 * Passes an end on, with all bytes in the ring, and frees the handle, also on failure. Whoever takes it
 * calls fastpipe_ring_from_fd.
 *
 * Returns a descriptor, close-on-exec, which is the caller's; -EINVAL; -EMFILE.
 */
int fastpipe_ring_into_fd(fastpipe_ring *ring);

/**
 * Watches the process at the other end, so that its death ends a wait: a child that has not been waited
 * for, or with pid 0 the parent. Not needed after an offer.
 *
 * Returns 0; -ESRCH if there is no such process; -EINVAL; -EOPNOTSUPP before Linux 5.3.
 */
int fastpipe_ring_watch(fastpipe_ring *ring,
                        int pid);

/**
 * Sets how to wait (one of fastpipe_wait; default FASTPIPE_WAIT_BLOCK), and for how long at most, in
 * nanoseconds; 0 means without limit. Call it in the thread that waits.
 *
 * Returns 0, or -EINVAL.
 */
int fastpipe_ring_set_wait(fastpipe_ring *ring,
                           uint32_t wait,
                           uint64_t timeout_ns);

/**
 * Returns the capacity of the ring in bytes, or 0 for NULL. At most half of it can be lent or shown at once.
 */
size_t fastpipe_ring_capacity(fastpipe_ring *ring);

/**
 * Returns the state of the process at the other end, one of fastpipe_peer; -EPROTO if the ring is
 * corrupt; -EINVAL.
 */
int fastpipe_ring_peer(fastpipe_ring *ring);

/**
 * Returns a descriptor that becomes readable when there is room or data again, or the other process is
 * gone: for poll(2) and epoll(7), once for each call that failed with -EAGAIN under FASTPIPE_WAIT_NEVER. It belongs to
 * the ring: don't read or close it. -EOPNOTSUPP if this end was neither offered nor accepted; -EINVAL.
 */
int fastpipe_ring_ready_fd(fastpipe_ring *ring);

/**
 * Lends room for at least at_least bytes, of which 0 means one, and waits for it. Sets *memory and *length,
 * which is all room known to be free. It is the caller's until the next call with this end.
 *
 * Returns 0; -EINVAL for more than half of the capacity; -EPIPE if the consumer has freed its end;
 * -ECONNRESET if it died; -EPROTO if the ring is corrupt; -ETIMEDOUT; -EAGAIN.
 */
int fastpipe_ring_lend(fastpipe_ring *ring,
                       size_t at_least,
                       void **memory,
                       size_t *length);

/**
 * Makes the first n bytes of the room lent available to the consumer, who sees them at once.
 *
 * Returns 0, or -EINVAL if nothing is lent, or less.
 */
int fastpipe_ring_commit(fastpipe_ring *ring, size_t n);

/**
 * Sends a message, which fastpipe_ring_receive returns as a whole. Waits for room. Don't mix messages with
 * bytes that are committed.
 *
 * Returns 0; -EINVAL for a message of more than half of the capacity less 8 bytes; errors as of
 * fastpipe_ring_lend.
 */
int fastpipe_ring_send(fastpipe_ring *ring,
                       const void *message,
                       size_t length);

/**
 * Waits until the consumer has released all bytes. Freeing the producer's end does not wait.
 *
 * Returns 0, or errors as of fastpipe_ring_lend.
 */
int fastpipe_ring_wait_drained(fastpipe_ring *ring);

/**
 * Shows the next bytes in the ring, at least at_least, of which 0 means one, and waits for them. Sets *data
 * and *length. There are fewer only at the end of the data, and none after it. Valid until the next call with
 * this end.
 *
 * Returns 0; -EINVAL for more than half of the capacity; -ECONNRESET if the producer died, after all
 * bytes that it had committed; -EPROTO if the ring is corrupt; -ETIMEDOUT; -EAGAIN.
 */
int fastpipe_ring_peek(fastpipe_ring *ring,
                       size_t at_least,
                       const void **data,
                       size_t *length);

/**
 * Takes the first n of the bytes shown out of the ring, which frees their room.
 *
 * Returns 0, or -EINVAL if nothing is shown, or less.
 */
int fastpipe_ring_release(fastpipe_ring *ring, size_t n);

/**
 * Receives the next message of fastpipe_ring_send, and waits for it. Sets *message to a copy of it, which is
 * valid until the next call with this end, and *length.
 *
 * Returns 1; 0 at the end of the data; -EPROTO if the producer has sent anything but messages; errors
 * as of fastpipe_ring_peek.
 */
int fastpipe_ring_receive(fastpipe_ring *ring,
                          const void **message,
                          size_t *length);

/**
 * Frees an end. The producer's thereby marks the end of the data: the consumer still gets all bytes that
 * were committed. NULL is allowed.
 */
void fastpipe_ring_free(fastpipe_ring *ring);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FASTPIPE_H */
