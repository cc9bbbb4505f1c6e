/* Lines: the operations that a program issues on process groups of its own, compared with those of
 * the peers before they are issued. No function here waits for another process, except
 * lockstep_lines_meet(). Results, texts and reports are as in lockstep.h.
 *
 * If two ranks have different operations under the same number of a group, at least one of the two
 * operations is refused (GRAPH_DIVERGENCE) and must not be issued, so the other cannot complete. A
 * refusal is final for its group: every rank of the group gets the same report, at its next
 * operation and in its waits. Ranks of one host see each other's operations at once. Ranks of
 * different hosts see them a few milliseconds later, by notes, once the hosts have met. If two such
 * ranks issue different operations within that time, both have issued them before the refusal.
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
/* Returns a word by which peers find this memory; the caller sends it to all ranks. */
const char* lockstep_lines_place(const lockstep_lines* lines);
/* Opens the memory of the ranks of this host. `places`: the words of all ranks, in rank order. Call
 * it once, before the first operation. `seen` (may be NULL) receives the number of ranks whose
 * lines can be read, including this rank. */
int lockstep_lines_join(lockstep_lines* lines, const char* const* places, size_t ranks,
                        size_t* seen);
/* `head` receives the head of this host: its lowest rank. Call it after lockstep_lines_join(); the
 * caller sends the result to all ranks. Errors: ENVIRONMENT. */
int lockstep_lines_head(lockstep_lines* lines, int32_t* head);
/* Connects the hosts, if not all ranks have the same head; called once on all ranks, before the
 * first operation. `heads`: the heads of all ranks (-1: the rank takes no part). Collective over
 * the heads: they meet at `address` ("10.0.0.1:4711"), on the host of the lowest head, with a
 * secret that only they have, within `seconds`. Errors: those of a rendezvous. */
int lockstep_lines_meet(lockstep_lines* lines, const int32_t* heads, size_t ranks,
                        const char* address, const char* secret, double seconds);
/* Declares a process group, or a directed pair of its ranks (sender first) with a tag. `key`: equal
 * on all members, and different from the key of any other group; `members`: their ranks, in the
 * group's order; `name`: its name in reports; `group` receives its number. */
int lockstep_lines_group(lockstep_lines* lines, lockstep_fingerprint key, const int32_t* members,
                         size_t count, const char* name, int* group);

typedef enum lockstep_needs {
  /* The members that must have issued an operation before it can complete on this rank. */
  LOCKSTEP_NEEDS_ALL = 0,
  LOCKSTEP_NEEDS_ROOT = 1,    /* a broadcast on a rank that is not its root; a receive (root 0) */
  LOCKSTEP_NEEDS_SENDERS = 2, /* the members from which this rank receives elements */
  LOCKSTEP_NEEDS_NOBODY = 3,  /* a broadcast on its root; a send that may be buffered */
  LOCKSTEP_NEEDS_RECEIVER = 4 /* a send that completes when it is received */
} lockstep_needs;

/* Texts may be NULL. Arrays are read during the call only. */
typedef struct lockstep_operation {
  uint32_t struct_size;    /* sizeof(lockstep_operation) */
  const char* kind;        /* "all_reduce" */
  const char* dtype;       /* "f32" */
  const char* reduction;   /* "sum" */
  const char* place;       /* "train.py:41" */
  int32_t root;            /* a member's number in the group; -1: no root */
  int32_t needs;           /* lockstep_needs */
  int32_t paired;          /* 1: a send or a receive */
  uint32_t tensors;        /* tensors whose numbers of elements must be equal on all members */
  const int64_t* elements; /* number of elements of each such tensor */
  uint32_t ndim;
  const int64_t* shape; /* `ndim` sizes of the first tensor, for reports */
  /* If sizes may differ between members: numbers of elements that go to, and arrive from, members.
   * The count is 1 (the root only) or the number of members; 0 for other operations. */
  uint32_t to_count, from_count;
  const int64_t *to, *from;
} lockstep_operation;

/* Posts an operation and compares it with those of peers. `number` (may be NULL) receives its
 * number in the group, from 0. After any error the operation must not be issued. Errors:
 * GRAPH_DIVERGENCE; STUCK, GONE, RANK_LOST (the group is dead); ENVIRONMENT; BAD_INPUT. */
int lockstep_lines_issue(lockstep_lines* lines, int group, const lockstep_operation* operation,
                         uint64_t* number);
/* Number of pairs of different places in the program at which two ranks issued equal operations.
 * Such operations are not refused. */
uint64_t lockstep_lines_apart(const lockstep_lines* lines);
/* The `number`-th of these pairs, from 1, as a sentence that stays valid; NULL: no such pair. */
const char* lockstep_lines_apart_text(const lockstep_lines* lines, uint64_t number);
/* Says that the operation posted last on `group` has been handed to its transport. */
void lockstep_lines_issued(lockstep_lines* lines, int group);

/* Checks that an issued operation can still complete, even if no thread waits for it. Errors: those
 * of a dead group. The group becomes dead if a rank that the operation needs has ended without
 * issuing it. */
int lockstep_lines_in_flight(lockstep_lines* lines, int group, uint64_t number);
/* Posts `what` for peers, under the key of its subject, such as what this rank compiles. The post
 * is not compared. Only the latest posts of a rank are kept, some 4,096 per key. */
int lockstep_lines_tell(lockstep_lines* lines, lockstep_fingerprint key,
                        const lockstep_operation* what);
typedef struct lockstep_told {
  uint32_t struct_size; /* sizeof(lockstep_told) */
  uint64_t times;       /* number of the rank's posts under the key; 0: none known */
  const char *kind, *dtype, *reduction, *place;
  size_t to_count;
  const int64_t* to;
} lockstep_told;
/* `told` receives post `number` (from 1) of a rank under the key. Only `times` is set if `number`
 * is 0 or the post is not kept. `rank` may be this rank. `told` is valid until this thread's next
 * call of this function. */
int lockstep_lines_told(lockstep_lines* lines, lockstep_fingerprint key, int32_t rank,
                        uint64_t number, lockstep_told* told);

typedef enum lockstep_arrived {
  LOCKSTEP_ARRIVED_NOT_YET = 0,
  LOCKSTEP_ARRIVED_ALL = 1, /* all ranks whose lines can be read */
  LOCKSTEP_ARRIVED_HERE = 2 /* all ranks of this host; the posts of other hosts arrive later */
} lockstep_arrived;
/* Says which of the ranks that an operation needs have issued it: returns a lockstep_arrived. */
int lockstep_lines_arrived(lockstep_lines* lines, int group, uint64_t number);
/* Says that this thread begins to wait for an operation. */
int lockstep_wait_begin(lockstep_lines* lines, int group, uint64_t number, lockstep_wait** wait);
/* Checks that the wait can end; call it every 20 ms or so. Errors: those of a dead group. */
int lockstep_wait_look(lockstep_wait* wait);
void lockstep_wait_end(lockstep_wait* wait);

/* Says whether the program has threads that have issued nothing yet but may do so. */
void lockstep_lines_threads_beside(lockstep_lines* lines, int are_there);
/* Says that this process may receive from any source from now on; call it before the first such
 * receive. Peers then no longer see whether this process has received a send. */
void lockstep_lines_take_from_any(lockstep_lines* lines);
/* Sets the time after which a rank that others wait for is named (STUCK), if it has not called
 * lockstep_lines_alive(). 0: never. */
void lockstep_lines_deadline(lockstep_lines* lines, double seconds);
/* Says that this process counts as making progress for `seconds` from now. */
void lockstep_lines_alive(lockstep_lines* lines, double seconds);
typedef enum lockstep_peer_state {
  LOCKSTEP_PEER_UNSEEN = 0, /* its memory cannot be read, or it is on another host not met */
  LOCKSTEP_PEER_RUNNING = 1,
  LOCKSTEP_PEER_FINISHED = 2, /* lockstep_lines_finish() */
  LOCKSTEP_PEER_GONE = 3,     /* lockstep_lines_gone() */
  LOCKSTEP_PEER_LOST = 4      /* its process has ended without a report */
} lockstep_peer_state;
/* `state` receives what is known of a rank's process (a lockstep_peer_state), and `text` what the
 * rank gave to lockstep_lines_gone(), "" in other states. `text` is valid until this thread's next
 * call of this function. */
int lockstep_lines_peer(const lockstep_lines* lines, int32_t rank, int32_t* state,
                        const char** text);
/* Says that this process ends by a failure and issues nothing more. */
void lockstep_lines_gone(lockstep_lines* lines, const char* text);
/* Says that this process issues nothing more. Errors: GRAPH_DIVERGENCE (an operation that it issued
 * was refused afterwards, and no call has reported that yet), BAD_INPUT. */
int lockstep_lines_finish(lockstep_lines* lines);
/* Stops sending posts to other hosts; call it when the process ends. */
void lockstep_lines_leave(lockstep_lines* lines);
void lockstep_lines_free(lockstep_lines* lines);

#ifdef __cplusplus
}
#endif
#endif
