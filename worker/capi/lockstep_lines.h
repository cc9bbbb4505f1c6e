/* Lines: the operations that a program issues on process groups of its own, compared with those of
 * its peers before they are issued. No function here waits for another process, except
 * lockstep_lines_meet(). Results, texts and reports are as in lockstep.h.
 *
 * If the operations of two ranks at the same number of a group differ, at least one is refused
 * (GRAPH_DIVERGENCE), and must not be issued: the other can then not complete. A refusal is final
 * for its group; every rank of the group gets the same report, at its next operation and in its
 * waits. Ranks of one host see each other at once; those of other hosts by notes, a few
 * milliseconds later, once the hosts have met. Ranks that differ within that time have both issued
 * before the refusal.
 *
 * Threads: every function may be called on any thread. Operations of one group must be issued in
 * the same order on its ranks, so only one thread at a time may issue on it. */
#ifndef LOCKSTEP_LINES_H
#define LOCKSTEP_LINES_H

#include <lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lockstep_lines lockstep_lines;
/* A wait of one thread. */
typedef struct lockstep_wait lockstep_wait;

/* Opens the shared memory in which rank `rank`, from 0 to ranks - 1, posts its lines. Errors:
 * ENVIRONMENT (no memory). */
int lockstep_lines_open(int rank, lockstep_lines** lines);
/* A word by which peers find this memory; the caller sends it to all ranks. */
const char* lockstep_lines_place(const lockstep_lines* lines);
/* Takes the words of all ranks, in rank order; once, before the first operation. `seen` (may be
 * NULL): number of ranks whose lines can be read, this one included. */
int lockstep_lines_join(lockstep_lines* lines, const char* const* places, size_t ranks,
                        size_t* seen);
/* Returns the lowest rank of this host, its head; after join(). The caller sends it to all ranks.
 * Errors: ENVIRONMENT. */
int lockstep_lines_head(lockstep_lines* lines, int32_t* head);
/* Connects the hosts, if not all ranks have the same head; called once on all ranks, before the
 * first operation. `heads`: those of all ranks (-1: the rank takes no part). Collective over the
 * heads: they meet at `address`, of the host of the lowest head ("10.0.0.1:4711"), with a secret
 * that only they have, within `seconds`. Errors: those of a rendezvous. */
int lockstep_lines_meet(lockstep_lines* lines, const int32_t* heads, size_t ranks,
                        const char* address, const char* secret, double seconds);
/* Declares a process group, or a directed pair of one (sender first) with its tag. `key`: equal on
 * its members, and different from that of any other group; `members`: their ranks, in the group's
 * order; `name`: its name in reports. */
int lockstep_lines_group(lockstep_lines* lines, lockstep_fingerprint key, const int32_t* members,
                         size_t count, const char* name, int* group);

typedef enum lockstep_needs {
  LOCKSTEP_NEEDS_ALL = 0,     /* completes when all members have issued it */
  LOCKSTEP_NEEDS_ROOT = 1,    /* the root: a broadcast elsewhere; a receive, whose root is 0 */
  LOCKSTEP_NEEDS_SENDERS = 2, /* the members from which it receives elements */
  LOCKSTEP_NEEDS_NOBODY = 3,  /* a broadcast on its root; a send that may be buffered */
  LOCKSTEP_NEEDS_RECEIVER = 4 /* a send that completes when it is received */
} lockstep_needs;

/* Texts may be NULL. Arrays are read during the call only. */
typedef struct lockstep_operation {
  uint32_t struct_size;  /* sizeof(lockstep_operation) */
  const char* kind;      /* "all_reduce" */
  const char* dtype;     /* "f32" */
  const char* reduction; /* "sum" */
  const char* place;     /* "train.py:41" */
  int32_t root;          /* a member's number in the group; -1: none */
  int32_t needs;         /* lockstep_needs */
  int32_t paired;        /* a send or a receive */
  uint32_t tensors;      /* their numbers of elements must be equal on all members */
  const int64_t* elements;
  uint32_t ndim; /* sizes of the first tensor, for reports */
  const int64_t* shape;
  /* elements to and from members; the count is 0 (none), 1 (the root only), or that of members */
  uint32_t to_count, from_count;
  const int64_t *to, *from;
} lockstep_operation;

/* Posts an operation and compares it with those of peers. `number` (may be NULL): its number in the
 * group, from 0. Errors: GRAPH_DIVERGENCE (it must not be issued), STUCK, GONE, RANK_LOST (the
 * group is dead), ENVIRONMENT, BAD_INPUT. */
int lockstep_lines_issue(lockstep_lines* lines, int group, const lockstep_operation* operation,
                         uint64_t* number);
/* Number of pairs of places in the program at which two ranks issued equal operations. Such
 * operations are not refused. */
uint64_t lockstep_lines_apart(const lockstep_lines* lines);
/* The `number`-th pair, from 1, as a sentence that stays valid; NULL: no such pair. */
const char* lockstep_lines_apart_text(const lockstep_lines* lines, uint64_t number);
/* The posted operation has been handed to its transport. */
void lockstep_lines_issued(lockstep_lines* lines, int group);

/* Checks that an issued operation, in which perhaps nobody waits, can still complete. Errors: those
 * of a dead group. The group becomes dead if a rank that the operation needs has ended without it.
 */
int lockstep_lines_in_flight(lockstep_lines* lines, int group, uint64_t number);
/* Posts something for peers that is not compared, about what `key` stands for: what this rank
 * compiles, for example. Only the latest posts of a rank about one key are kept, some 4,096. */
int lockstep_lines_tell(lockstep_lines* lines, lockstep_fingerprint key,
                        const lockstep_operation* what);
typedef struct lockstep_told {
  uint32_t struct_size; /* sizeof(lockstep_told) */
  uint64_t times;       /* number of the rank's posts about the key; 0: none known */
  const char *kind, *dtype, *reduction, *place;
  size_t to_count;
  const int64_t* to;
} lockstep_told;
/* Returns a rank's `number`-th post about the key (from 1), if it is still kept; for 0, or a number
 * that is too high, only `times` is set. `rank` may be this one. Valid until this thread's next
 * such call. */
int lockstep_lines_told(lockstep_lines* lines, lockstep_fingerprint key, int32_t rank,
                        uint64_t number, lockstep_told* told);

typedef enum lockstep_arrived {
  LOCKSTEP_ARRIVED_NOT_YET = 0,
  LOCKSTEP_ARRIVED_ALL = 1, /* all that can be seen */
  LOCKSTEP_ARRIVED_HERE = 2 /* all of this host; others report later */
} lockstep_arrived;
/* Returns which of the ranks that an operation needs have issued it: a lockstep_arrived. */
int lockstep_lines_arrived(lockstep_lines* lines, int group, uint64_t number);
/* This thread begins to wait for an operation. */
int lockstep_wait_begin(lockstep_lines* lines, int group, uint64_t number, lockstep_wait** wait);
/* Checks that the wait can end; call it every 20 ms or so. Errors: those of a dead group. */
int lockstep_wait_look(lockstep_wait* wait);
void lockstep_wait_end(lockstep_wait* wait);

/* Sets whether the program has threads that have issued nothing yet but may do so. */
void lockstep_lines_threads_beside(lockstep_lines* lines, int are_there);
/* This process may receive from any source from now on; call it before the first such receive.
 * Peers then no longer see whether this process has received a send. */
void lockstep_lines_take_from_any(lockstep_lines* lines);
/* Time after which a rank that others wait for, and that has not reported to be alive, is named
 * (STUCK). 0: never. */
void lockstep_lines_deadline(lockstep_lines* lines, double seconds);
/* This process makes progress, as far as the caller knows, for `seconds` from now. */
void lockstep_lines_alive(lockstep_lines* lines, double seconds);
/* This process ends by a failure; it issues nothing more. */
void lockstep_lines_gone(lockstep_lines* lines, const char* text);
/* This process issues nothing more. Errors: GRAPH_DIVERGENCE (an operation that it issued has been
 * refused since, and no call has reported it), BAD_INPUT. */
int lockstep_lines_finish(lockstep_lines* lines);
/* The process ends: nothing more is sent to other hosts. */
void lockstep_lines_leave(lockstep_lines* lines);
void lockstep_lines_free(lockstep_lines* lines);

#ifdef __cplusplus
}
#endif
#endif
