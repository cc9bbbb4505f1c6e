/* Lines: the operations that a program issues on process groups of its own, compared with those of
 * its peers before they are issued. Nothing here waits for another process. Results, texts and
 * reports are as in lockstep.h.
 *
 * Of two ranks whose operations at one place of a group differ at least one is refused
 * (GRAPH_DIVERGENCE), and must not issue: the other one's cannot end then. A refusal is final for
 * its group; every rank of it has the same report, at its next operation and in its waits. Ranks of
 * one host see each other at once; those of other hosts by notes, a few milliseconds later, once
 * the hosts have met: ranks that differ within that time have both issued before it is said.
 *
 * Threads: every function goes on any thread. Operations of one group must come in the same order
 * on its ranks, so a program has one thread at a time issue on it. */
#ifndef LOCKSTEP_LINES_H
#define LOCKSTEP_LINES_H

#include <lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lockstep_lines lockstep_lines;
/* A wait of one thread. */
typedef struct lockstep_wait lockstep_wait;

/* What the lines of rank `rank`, of 0 to ranks - 1, are posted in. Errors: ENVIRONMENT (no memory).
 */
int lockstep_lines_open(int rank, lockstep_lines** lines);
/* What peers need to know of it, a word; to be told to all. */
const char* lockstep_lines_place(const lockstep_lines* lines);
/* The words of all ranks, in their order; once, before the first operation. `seen` (may be NULL):
 * how many can be read, this one included. */
int lockstep_lines_join(lockstep_lines* lines, const char* const* places, size_t ranks,
                        size_t* seen);
/* The lowest rank of this host, its head; after join(), to be told to all. Errors: ENVIRONMENT. */
int lockstep_lines_head(lockstep_lines* lines, int32_t* head);
/* Where not all have the same head: `heads`, those of all ranks (-1: it takes no part); once,
 * before the first operation, on all ranks. Collective over the heads: they meet at `address`, of
 * the host of the lowest ("10.0.0.1:4711"), with a secret that only they have, for `seconds` at
 * most. Errors: as of ranks that meet. */
int lockstep_lines_meet(lockstep_lines* lines, const int32_t* heads, size_t ranks,
                        const char* address, const char* secret, double seconds);
/* A process group, or a directed pair of one (its sender first) with its tag. `key`: equal on its
 * members, and of no other group; `members`: their ranks, in the group's order; `name`: what
 * reports call it. */
int lockstep_lines_group(lockstep_lines* lines, lockstep_fingerprint key, const int32_t* members,
                         size_t count, const char* name, int* group);

typedef enum lockstep_needs {
  LOCKSTEP_NEEDS_ALL = 0,     /* it ends when all members have come */
  LOCKSTEP_NEEDS_ROOT = 1,    /* the root: a broadcast elsewhere; a receive, whose root is 0 */
  LOCKSTEP_NEEDS_SENDERS = 2, /* those that it takes something from */
  LOCKSTEP_NEEDS_NOBODY = 3,  /* a broadcast's root; a send that may be buffered */
  LOCKSTEP_NEEDS_RECEIVER = 4 /* a send that ends when it is received */
} lockstep_needs;

/* Texts may be NULL. Numbers are read during the call only. */
typedef struct lockstep_operation {
  uint32_t struct_size;  /* sizeof(lockstep_operation) */
  const char* kind;      /* "all_reduce" */
  const char* dtype;     /* "f32" */
  const char* reduction; /* "sum" */
  const char* place;     /* "train.py:41" */
  int32_t root;          /* a member's number in the group; -1: none */
  int32_t needs;         /* lockstep_needs */
  int32_t paired;        /* a send or a receive */
  uint32_t tensors;      /* numbers of elements, which all members need alike */
  const int64_t* elements;
  uint32_t ndim; /* sizes of the first tensor, for reports */
  const int64_t* shape;
  /* elements to and from each member; 0: none, 1: to or from the root, or one per member */
  uint32_t to_count, from_count;
  const int64_t *to, *from;
} lockstep_operation;

/* Posts and compares. `number` (may be NULL): its number in the group, from 0. Errors:
 * GRAPH_DIVERGENCE (it must not be issued), STUCK, GONE, RANK_LOST (the group is dead),
 * ENVIRONMENT, BAD_INPUT. */
int lockstep_lines_issue(lockstep_lines* lines, int group, const lockstep_operation* operation,
                         uint64_t* number);
/* Of operations that were equal, and so were issued, but at other places of the program on two
 * ranks: how many pairs of places have been met. Nothing is refused for that. */
uint64_t lockstep_lines_apart(const lockstep_lines* lines);
/* The `number`-th of them, from 1, as a sentence, which stays; NULL: there is none. */
const char* lockstep_lines_apart_text(const lockstep_lines* lines, uint64_t number);
/* It has been handed to its transport. */
void lockstep_lines_issued(lockstep_lines* lines, int group);

/* Whether an operation that has been issued, and in which perhaps nobody waits, can still complete.
 * Errors: those of a dead group; its group is dead from then on where a rank that it needs has
 * ended without it. */
int lockstep_lines_in_flight(lockstep_lines* lines, int group, uint64_t number);
/* Tells peers something that is compared with nothing, about what `key` stands for: what this rank
 * compiles, for example. Of some 4,096 tales of a rank about one key only the last are kept. */
int lockstep_lines_tell(lockstep_lines* lines, lockstep_fingerprint key,
                        const lockstep_operation* what);
typedef struct lockstep_told {
  uint32_t struct_size; /* sizeof(lockstep_told) */
  uint64_t times;       /* that the rank has told something about the key; 0: nothing is known */
  const char *kind, *dtype, *reduction, *place;
  size_t to_count;
  const int64_t* to;
} lockstep_told;
/* What a rank, this one included, has told the `number`-th time (from 1), where it is still kept;
 * of 0, or a number that is too high, only `times` is given. It stays until this thread's next such
 * call. */
int lockstep_lines_told(lockstep_lines* lines, lockstep_fingerprint key, int32_t rank,
                        uint64_t number, lockstep_told* told);

typedef enum lockstep_arrived {
  LOCKSTEP_ARRIVED_NOT_YET = 0,
  LOCKSTEP_ARRIVED_ALL = 1, /* all that are seen */
  LOCKSTEP_ARRIVED_HERE = 2 /* all of this host; of others it is heard later */
} lockstep_arrived;
/* Who has issued it of those whose part an operation needs. */
int lockstep_lines_arrived(lockstep_lines* lines, int group, uint64_t number);
/* This thread waits for an operation. */
int lockstep_wait_begin(lockstep_lines* lines, int group, uint64_t number, lockstep_wait** wait);
/* Whether it can end; to be asked every 20 ms or so. Errors: those of a dead group. */
int lockstep_wait_look(lockstep_wait* wait);
void lockstep_wait_end(lockstep_wait* wait);

/* Whether the program has threads that have issued nothing yet and may. */
void lockstep_lines_threads_beside(lockstep_lines* lines, int are_there);
/* From now on this process may receive from any source; to be called before it first does. Whether
 * it has come to a send is not seen any more. */
void lockstep_lines_take_from_any(lockstep_lines* lines);
/* A rank that others wait for `seconds` long, and that has not said to be alive, is named (STUCK).
 * 0: none is. */
void lockstep_lines_deadline(lockstep_lines* lines, double seconds);
/* This process moves on, as far as its caller knows, for so many seconds from now. */
void lockstep_lines_alive(lockstep_lines* lines, double seconds);
/* This process ends by a failure; it issues nothing more. */
void lockstep_lines_gone(lockstep_lines* lines, const char* text);
/* It issues nothing more. Errors: GRAPH_DIVERGENCE (an operation that it has issued was refused
 * since, and no call has said so), BAD_INPUT. */
int lockstep_lines_finish(lockstep_lines* lines);
/* The process ends: other hosts are told nothing more from here. */
void lockstep_lines_leave(lockstep_lines* lines);
void lockstep_lines_free(lockstep_lines* lines);

#ifdef __cplusplus
}
#endif
#endif
