/* lockstep for C and every language that can call C: before each call of a function, all ranks of a
 * job agree on the compiled version to run, on one decision for a new version, or on one error.
 * There is also an audit, which compares what the ranks run and changes nothing. The caller
 * provides the tracer and the compiler. Programs link with -llockstep.
 *
 * Terms. A frame is a function that the ranks call together. A version is a compiled form of a
 * frame; its number is its entry. A source is an input of a call. A symbol is a size or int that
 * may differ between calls of a version. In a vote the ranks look for a version that fits them all.
 *
 * Results. Functions that can fail return LOCKSTEP_OK or a code; after a code, other results mean
 * nothing, and lockstep_last_error() returns the report. Collective functions (marked so) must be
 * called by every rank of the group in the same order, and fail with the same error on all ranks. A
 * rank with a local error (a wrong argument, a failed build) still takes part, and its error
 * becomes the error of every rank. After such an error the next call works. A rank that cannot take
 * part fails alone, with BAD_INPUT: a handle is NULL, the group is over, or another call is in
 * progress. If a rank does not call at all, the watchdog ends the process after the group's
 * deadline, with the missing ranks on stderr and exit code 4 or 5: no wait is endless.
 *
 * Threads. A group, with its agreements, takes one call at a time, from any thread. A call made
 * during a call of another thread fails on this rank alone with BAD_INPUT, which names both
 * threads, and changes nothing. lockstep_busy() and lockstep_stalls() never fail for this reason.
 * Freeing an agreement or closing a group during a call of another thread has no effect, except
 * that closing a group of several ranks ends the job with this BAD_INPUT. All ranks must make their
 * calls in the same order, whichever threads make them. Only one thread at a time may set an
 * observation, and no thread may set it during a call that uses it.
 *
 * Text is UTF-8 and ends in a zero byte. Groups, observations and agreements are freed by the
 * caller, in any order; freeing NULL does nothing. All other handles and all strings belong to the
 * handle that returned them, or to the library. */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the binary interface that this header describes; lockstep_abi() returns that of
 * the library. The version changes only if programs built against an older header would break.
 * Enumerators count from 0 and keep their numbers. */
#define LOCKSTEP_ABI 1
int lockstep_abi(void);
/* "0.1.0" */
const char* lockstep_version(void);

typedef enum lockstep_code {
  LOCKSTEP_OK = 0,
  /* Ranks disagree (1 to 12). */
  LOCKSTEP_ABSENT_RANKS,
  LOCKSTEP_FRAME_MISMATCH,  /* ranks are in different frames or functions */
  LOCKSTEP_SOURCE_MISMATCH, /* a rank lacks a source or a field */
  LOCKSTEP_KIND_MISMATCH,   /* the kind of a source, or the type or join of a field, differs */
  LOCKSTEP_DTYPE_MISMATCH,
  LOCKSTEP_NDIM_MISMATCH,
  LOCKSTEP_CONSTANT_MISMATCH,    /* a bool, or a field or word of EQUAL, differs */
  LOCKSTEP_MARK_CONFLICT,        /* a size is STATIC on one rank, DYNAMIC or UNBACKED on another */
  LOCKSTEP_CONSTRAINT_VIOLATION, /* a size that must be equal on all ranks differs */
  LOCKSTEP_BRANCH_DIVERGENCE,    /* a guard is false on a rank */
  LOCKSTEP_GRAPH_DIVERGENCE,     /* the programs of the ranks differ */
  LOCKSTEP_CONFIG_MISMATCH,
  /* One rank failed; all ranks get its error (13 to 16). */
  LOCKSTEP_TRACE_ERROR,
  LOCKSTEP_COMPILE_ERROR,
  LOCKSTEP_RUNTIME_ASSERT,
  LOCKSTEP_GONE, /* a rank has left the group */
  /* A wait was ended by the watchdog; the group cannot be used any more (17 and 18). */
  LOCKSTEP_STUCK,
  LOCKSTEP_RANK_LOST,
  /* Errors of this rank alone, unless the function is collective (19 to 22). */
  LOCKSTEP_BAD_INPUT,
  LOCKSTEP_VERSION,
  LOCKSTEP_ENVIRONMENT,
  LOCKSTEP_INTERNAL /* a bug of lockstep */
} lockstep_code;

/* "FRAME_MISMATCH"; "OK"; "(no such code)" */
const char* lockstep_code_name(int code);
/* The exit code of a process for `code`: 0 OK, 2 bad input, 3 ranks disagree or one failed, 4
 * stuck, 5 rank lost, 6 version, 7 environment or a bug of lockstep. */
int lockstep_exit_code(int code);

/* ---- Reports: an error, or what an audit found ------------------------------------------------
 */

typedef struct lockstep_report lockstep_report;
/* The report of the last function that failed on this thread; NULL: no function has failed, or no
 * memory was left for a report. Valid until the next failure on this thread. A report that is NULL
 * has code OK, empty texts and no rows. */
const lockstep_report* lockstep_last_error(void);
int lockstep_report_code(const lockstep_report* report);
/* One sentence: what happened, what to do. The table, if there is one, says on which ranks. */
const char* lockstep_report_message(const lockstep_report* report);
/* Code, message and table in one line. */
const char* lockstep_report_text(const lockstep_report* report);
/* The input that caused the error ("tokens.size(0)"); empty: no single input. */
const char* lockstep_report_source(const lockstep_report* report);
/* Number of rows of the table by ranks: one per distinct value, ordered by the lowest rank that has
 * the value. */
size_t lockstep_report_rows(const lockstep_report* report);
/* A row: its ranks ("0-2,7"), and their value, such as a frame's name. Empty past the end. */
const char* lockstep_report_ranks(const lockstep_report* report, size_t row);
const char* lockstep_report_value(const lockstep_report* report, size_t row);

/* ---- Groups: the ranks that agree -------------------------------------------------------------
 */

typedef struct lockstep_group lockstep_group;
/* Collective. `comm` points to an MPI_Comm, which is duplicated and otherwise not used. If `comm`
 * is NULL and LOCKSTEP_RENDEZVOUS is set, the group has the processes that meet there: a file on
 * their host, by its absolute path, or a free port on the host of rank 0 ("127.0.0.1:4711"; one
 * that other hosts reach needs a secret, LOCKSTEP_TOKEN). Without a launcher, each process also
 * needs LOCKSTEP_RANK and LOCKSTEP_WORLD_SIZE. If neither is given, the group has all processes
 * that the launcher (mpirun, srun, torchrun) started, or this process alone if there is no
 * launcher. They meet by MPI, or over TCP (under torchrun, or in a build without MPI). MPI is
 * initialised here if it is not yet; closing this group then finalises it, for good. MPI may have
 * any thread level (MPI_THREAD_SERIALIZED or more if calls change threads); it must not be
 * finalised before the group is closed. `deadline_seconds`: how long an awaited rank may make no
 * progress; 0 means 60. `report_folder`: a folder that receives the watchdog's report, too; NULL:
 * no folder. The ranks compare their deadlines and libraries. Errors: ENVIRONMENT (no MPI),
 * CONFIG_MISMATCH, BAD_INPUT; over TCP STUCK (naming the missing ranks), VERSION (secrets or
 * libraries differ), RANK_LOST. */
int lockstep_group_open(const void* comm, double deadline_seconds, const char* report_folder,
                        lockstep_group** group);
/* The number of processes that a launcher (mpirun, mpiexec, srun, torchrun) started together, this
 * one included, from the launcher's variables; 1: no launcher. */
int lockstep_launched(void);
/* A group of this process only, without MPI, even if a launcher has started others. */
int lockstep_group_alone(lockstep_group** group);
/* Rank and size of the group; -1 if `group` is NULL. */
int lockstep_group_rank(const lockstep_group* group);
int lockstep_group_size(const lockstep_group* group);
/* Says that this process is busy, for example compiling, and does not count as stuck for `seconds`
 * from now; 0 means 60. From any thread. */
int lockstep_busy(lockstep_group* group, double seconds);
/* Says what this process does from now on, for the watchdog and the status page, such as
 * "all_reduce at train.py:41". Not collective, and never waits. */
int lockstep_note(lockstep_group* group, const char* text);
/* Says that this process is about to issue one of the program's own collectives, in which all ranks
 * of the group take part. `text` begins with the collective's name: "all_reduce f32[4] at
 * train.py:41". Tells the watchdog, which names ranks that do not issue it. Never waits. */
int lockstep_issues(lockstep_group* group, const char* text);
/* Says that the program's thread has made no progress for a while since lockstep_issues(). This
 * process then counts as waiting in that collective until it issues another or calls a collective
 * function. If the program does make progress, call lockstep_busy(), so that this process does not
 * count as stuck. From any thread. */
int lockstep_stalls(lockstep_group* group);
/* Reports that this rank has failed, with `code` (TRACE_ERROR, COMPILE_ERROR, RUNTIME_ASSERT,
 * BAD_INPUT, ENVIRONMENT) and `text`. Not collective. The next collective function fails with this
 * error on all ranks; a call whose prefetched vote has already been cast is still made first. */
int lockstep_trouble(lockstep_group* group, int code, const char* text);
/* Collective: fails if any rank has a local error now. For use before a checkpoint or before a
 * collective of the program itself. */
int lockstep_settle(lockstep_group* group);
/* Collective. On all ranks `result` becomes 1 if `mine` is not 0 on at least one rank (vote_any) or
 * on every rank (vote_all), else 0. */
int lockstep_vote_any(lockstep_group* group, int mine, int* result);
int lockstep_vote_all(lockstep_group* group, int mine, int* result);
/* Collective, at the head of a loop over uneven data. `have`: not 0 if this rank has data left.
 * `result` becomes 0 once no rank has data left, else 1. */
int lockstep_more(lockstep_group* group, int have, int* result);
/* How the words of all ranks become one. Words are signed. */
typedef enum lockstep_op {
  LOCKSTEP_OP_MIN,
  LOCKSTEP_OP_MAX,
  LOCKSTEP_OP_SUM,
  LOCKSTEP_OP_BITAND,
  LOCKSTEP_OP_BITOR,
  LOCKSTEP_OP_ALL,   /* 1 if the word is not 0 on every rank, else 0: do this only if all can */
  LOCKSTEP_OP_ANY,   /* 1 if the word is not 0 on some rank, else 0 */
  LOCKSTEP_OP_EQUAL, /* the same on every rank, else LOCKSTEP_CONSTANT_MISMATCH */
  LOCKSTEP_OP_ARGMIN,
  LOCKSTEP_OP_ARGMAX
} lockstep_op;
/* Collective. Makes 1 to 8 words of each rank the group's: words[i] by ops[i], in one vote for up
 * to five words (a word of ARGMIN or ARGMAX counts as two). `name` names the words; it must be the
 * same on all ranks, as must the ops. `where`, the user's line ("serve.c:41"), is for reports and
 * may be NULL. `deadline_seconds`: as of the group, for this call; 0: the group's. `ranks` (may be
 * NULL) receives the lowest rank that brought the word (ARGMIN, ARGMAX), else -1. Words stay as
 * they are if the function fails. Errors: FRAME_MISMATCH (other names, ops or functions, with the
 * lines of all ranks), CONSTANT_MISMATCH, BAD_INPUT (no words or more than 8, no such op, a sum
 * that may not fit). Needs neither MPI nor a GPU, and touches no stream. */
int lockstep_agree_words(lockstep_group* group, const char* name, int64_t* words, size_t count,
                         const int32_t* ops, double deadline_seconds, const char* where,
                         int32_t* ranks);
/* Casts the votes of the next lockstep_agree_words() of this name, which must have the same words
 * and ops, so that they proceed while the program works (lockstep_poke()). Never waits. Every rank
 * must call this, or none; one such call may be ahead. Its votes are cast in lockstep_agree_words()
 * if a prefetched call is ahead. If a rank then brings other words, its peers may be running
 * already, so the watchdog ends the job with BAD_INPUT, the words promised and the words given, and
 * exit code 2. A wrong argument fails here, and in the next collective function on all ranks. */
int lockstep_agree_words_ahead(lockstep_group* group, const char* name, const int64_t* words,
                               size_t count, const int32_t* ops, const char* where);
/* Collective, after a joint error: brings ranks that made different numbers of calls into step
 * again, in all agreements of the group. Versions stay; prefetches are dropped. A rank with a local
 * error (lockstep_trouble()) passes it on: the other ranks get it in the function that they are in,
 * and this rank waits until they call this function. Errors: GONE; FRAME_MISMATCH with the
 * functions of all ranks, if a rank is in another function and no rank has a local error (then call
 * this function again). */
int lockstep_resync(lockstep_group* group);
/* Advances the vote of a prefetched call or of words ahead; call it now and then while the program
 * works, also in a build callback. Never blocks, and costs almost nothing if there is no such vote.
 */
int lockstep_poke(lockstep_group* group);
/* Collective: ends the job on all ranks. Prefetched calls that were not made are dropped. If a rank
 * finishes while others go on, that is an error on all ranks. */
int lockstep_finish(lockstep_group* group);
/* Says that this rank ends without the others, for the reason in `text`: their next call fails with
 * GONE. If they may be running a prefetched call, the watchdog ends the job at once, with that
 * reason and exit code 3. */
int lockstep_leave(lockstep_group* group, const char* text);
/* Sets whether a lost rank ends the job even while this process is not waiting in a call of the
 * group; by default it does. Never waits. */
int lockstep_ends_at_loss(lockstep_group* group, int ends);
/* Says that this rank makes no more calls of the group. Never waits. If other ranks still make a
 * collective call, their watchdog ends the job once this rank has freed the group, and names this
 * rank. */
int lockstep_done(lockstep_group* group);
/* Frees the group. Unless finished, left or done with, the group is left first. */
void lockstep_group_close(lockstep_group* group);

/* ---- Observations: one rank's view of the inputs of a call -------------------------------------
 */

typedef enum lockstep_dtype {
  LOCKSTEP_BOOL,
  LOCKSTEP_U8,
  LOCKSTEP_I8,
  LOCKSTEP_I16,
  LOCKSTEP_I32,
  LOCKSTEP_I64,
  LOCKSTEP_F16,
  LOCKSTEP_BF16,
  LOCKSTEP_F32,
  LOCKSTEP_F64
} lockstep_dtype;
/* "f32" and so on; -1: no such dtype. */
int lockstep_dtype_from_name(const char* name);

typedef enum lockstep_kind {
  LOCKSTEP_TENSOR,
  LOCKSTEP_INT,
  LOCKSTEP_FLOAT,
  LOCKSTEP_BOOLEAN
} lockstep_kind;

/* The caller's mark of a size. */
typedef enum lockstep_mark {
  LOCKSTEP_MARK_NONE,
  LOCKSTEP_MARK_DYNAMIC,
  LOCKSTEP_MARK_MAYBE_DYNAMIC,
  LOCKSTEP_MARK_UNBACKED,
  LOCKSTEP_MARK_STATIC,
  /* Like MAYBE_DYNAMIC, and equal on all ranks: a size that differs is
     LOCKSTEP_CONSTRAINT_VIOLATION. */
  LOCKSTEP_MARK_UNIFORM
} lockstep_mark;

typedef struct lockstep_observation lockstep_observation;
int lockstep_observation_create(lockstep_observation** observation);
void lockstep_observation_free(lockstep_observation* observation);
/* Declare each source once; `source` (may be NULL) receives its number, from 0. Sizes and values
 * start as 0. Names must be unique and not empty; at most 16 dims. */
int lockstep_observe_tensor(lockstep_observation* observation, const char* name, int dtype,
                            size_t ndim, size_t* source);
int lockstep_observe_int(lockstep_observation* observation, const char* name, size_t* source);
int lockstep_observe_float(lockstep_observation* observation, const char* name, size_t* source);
int lockstep_observe_bool(lockstep_observation* observation, const char* name, size_t* source);
/* Set the sources before each call. `sizes` has as many sizes as the tensor was declared to have
 * dims, and `strides` as many strides in elements (NULL: contiguous), which are used only for the
 * order of the dims. */
int lockstep_set_sizes(lockstep_observation* observation, size_t source, const int64_t* sizes,
                       const int64_t* strides);
int lockstep_set_int(lockstep_observation* observation, size_t source, int64_t value);
int lockstep_set_bool(lockstep_observation* observation, size_t source, int value);
/* Sets all sources at once, in the order of declaration: the sizes of a tensor, one value for an
 * int or a bool, no value for a float. `count` must be the number of values. All tensors then count
 * as contiguous. */
int lockstep_set_all(lockstep_observation* observation, const int64_t* values, size_t count);
/* The mark stays until it is set again. */
int lockstep_set_mark(lockstep_observation* observation, size_t source, size_t dim, int mark);

/* ---- Fields: values that the ranks join to one for each version --------------------------------
 *
 * A field is not an input and becomes no symbol. When a version is built, the ranks join their
 * values, and the decision has the joined value before `build` runs. The version then serves calls
 * in which every rank's own value is equal to the joined one (EQUAL), not below it (MIN), not above
 * it (MAX) or one of its values (UNION). So a version for the maximum 512 serves values up to 512.
 * Errors: LOCKSTEP_SOURCE_MISMATCH if ranks observe different fields, LOCKSTEP_KIND_MISMATCH if
 * types or joins differ, LOCKSTEP_CONSTANT_MISMATCH if values of EQUAL differ. */

typedef enum lockstep_field_type {
  LOCKSTEP_FIELD_BOOL,
  LOCKSTEP_FIELD_INT,
  LOCKSTEP_FIELD_TEXT,
  LOCKSTEP_FIELD_BYTES,
  LOCKSTEP_FIELD_OBJECT /* a text by which every process names the same object; EQUAL only */
} lockstep_field_type;

typedef enum lockstep_join {
  LOCKSTEP_JOIN_EQUAL, /* the same on all ranks */
  LOCKSTEP_JOIN_MIN,   /* false is below true; text and bytes compare as unsigned bytes */
  LOCKSTEP_JOIN_MAX,
  LOCKSTEP_JOIN_UNION /* the distinct values, ordered by their lowest ranks; at most 64 KiB */
} lockstep_join;

/* Declares a field, once; `field` (may be NULL) receives its number, from 0. The name must not be
 * empty, nor be that of another field or source. Values start as 0 or empty. */
int lockstep_observe_field(lockstep_observation* observation, const char* name, int type, int join,
                           size_t* field);
/* Set the fields before each call. A value has at most 1,024 bytes and is copied. A text or an
 * object may be set by either of the last two functions. */
int lockstep_set_field_bool(lockstep_observation* observation, size_t field, int value);
int lockstep_set_field_int(lockstep_observation* observation, size_t field, int64_t value);
int lockstep_set_field_text(lockstep_observation* observation, size_t field, const char* text);
int lockstep_set_field_bytes(lockstep_observation* observation, size_t field, const void* bytes,
                             size_t length);

/* ---- Decisions: the static sizes and symbols of a version --------------------------------------
 */

typedef struct lockstep_decision lockstep_decision;
/* Number of sources, which are in the byte order of their names. */
size_t lockstep_decision_sources(const lockstep_decision* decision);
/* Name, kind and dtype of a source; NULL or -1 past the end, dtype -1 also if it is no tensor. */
const char* lockstep_decision_name(const lockstep_decision* decision, size_t source);
int lockstep_decision_kind(const lockstep_decision* decision, size_t source);
int lockstep_decision_dtype(const lockstep_decision* decision, size_t source);
/* Number of sizes of a tensor; 1 for an int or a bool, 0 for a float. */
size_t lockstep_decision_dims(const lockstep_decision* decision, size_t source);
/* A size, or the value of an int or bool: if `is_symbol` becomes 1, `value` is the number of a
 * symbol, else the static value. */
int lockstep_decision_dim(const lockstep_decision* decision, size_t source, size_t dim,
                          int* is_symbol, int64_t* value);
size_t lockstep_decision_symbols(const lockstep_decision* decision);
/* "tokens.size(0)", or the name of an int; NULL past the end. */
const char* lockstep_decision_symbol_source(const lockstep_decision* decision, size_t symbol);
/* `min`: INT64_MIN if there is no bound. `hint`: an example, the same on all ranks. `unbacked`: 1
 * if the program must not rely on the hint. Any of the three may be NULL. */
int lockstep_decision_symbol(const lockstep_decision* decision, size_t symbol, int64_t* min,
                             int64_t* hint, int* unbacked);
/* Number of fields, in the byte order of their names. */
size_t lockstep_decision_fields(const lockstep_decision* decision);
/* Name, type and join of a field; NULL or -1 past the end. */
const char* lockstep_decision_field_name(const lockstep_decision* decision, size_t field);
int lockstep_decision_field_type(const lockstep_decision* decision, size_t field);
int lockstep_decision_field_join(const lockstep_decision* decision, size_t field);
/* Number of values: 1, for a union 1 or more; 0 past the end. */
size_t lockstep_decision_field_values(const lockstep_decision* decision, size_t field);
/* A value of an int or bool. */
int lockstep_decision_field_int(const lockstep_decision* decision, size_t field, size_t value,
                                int64_t* number);
/* A value of text or bytes, followed by a zero byte that `length` (may be NULL) does not count;
 * NULL: no such value. */
const char* lockstep_decision_field_bytes(const lockstep_decision* decision, size_t field,
                                          size_t value, size_t* length);
/* One line: "tokens: f32[s0, 16] | s0 = tokens.size(0) min 2 hint 5" */
const char* lockstep_decision_text(const lockstep_decision* decision);
/* {"decisions": {"tokens": ["s0", 16]}, "symbols": {"s0": {"source": …, "min": 2, "hint": 5}}};
 * if there are fields, also "fields": {"capacity": 512}, in which a union is a list and bytes are
 * {"hex": "00ff"} */
const char* lockstep_decision_json(const lockstep_decision* decision);

/* ---- Agreement --------------------------------------------------------------------------------
 */

typedef enum lockstep_consistency {
  LOCKSTEP_SAME_GRAPH,       /* all ranks run the same program */
  LOCKSTEP_SAME_COLLECTIVES, /* the fingerprint of a build covers only its collectives */
  LOCKSTEP_SHARED_SIZES      /* ranks share the dynamic sizes; programs may differ */
} lockstep_consistency;

typedef struct lockstep_config {
  uint32_t struct_size; /* sizeof(lockstep_config) */
  int32_t consistency;
  /* Sizes that differ between ranks, or from those of earlier calls, become symbols; 0: earlier
     calls are ignored. */
  int32_t automatic_dynamic;
  int32_t assume_at_least_two; /* symbols are at least 2 until a rank sees a smaller size */
  int32_t recompile_limit;     /* 1 to 64 versions of a frame, then calls fall back */
  /* Once the versions for one list of inputs, the new one included, reach half of
     recompile_limit, the new version has symbols for all sizes and ints not marked static. */
  int32_t settle;
} lockstep_config;
#define LOCKSTEP_CONFIG_INIT \
  { sizeof(lockstep_config), LOCKSTEP_SAME_GRAPH, 1, 1, 8, 1 }

typedef struct lockstep_agreement lockstep_agreement;
/* Collective. `name` distinguishes agreements of one group in reports. `config`: NULL means
 * LOCKSTEP_CONFIG_INIT. Decisions and texts of the agreement are valid until it is freed, but its
 * calls fail with BAD_INPUT once the group is closed. Errors: BAD_INPUT, CONFIG_MISMATCH. */
int lockstep_agreement_create(lockstep_group* group, const char* name,
                              const lockstep_config* config, lockstep_agreement** agreement);
void lockstep_agreement_free(lockstep_agreement* agreement);

typedef struct lockstep_fingerprint {
  uint64_t high, low;
} lockstep_fingerprint;
/* The fingerprint of any bytes (XXH3, 128 bits), such as a program's text or a list of
 * collectives. */
lockstep_fingerprint lockstep_fingerprint_of(const void* bytes, size_t length);

typedef struct lockstep_built lockstep_built;
/* Builds version `entry` of the frame for `decision`, on the thread of the call. Returns 0 with the
 * program's fingerprint in `program` (zero before; if it stays zero, only decisions are compared),
 * or another value for a failure. Guards, or the reason of the failure, go to `built`, which is
 * valid during this call. `decision` is valid as long as the agreement if the version is added,
 * else during this call only. With `settle`, a build that fails on some rank may be repeated once
 * for the same `entry`, with another decision that has fewer symbols.
 *
 * The caller keeps the program by frame and entry. If lockstep_agree() fails, the version is not
 * added, and a later build of the same entry replaces the program. Entries count from 0 in each
 * frame. They can exceed recompile_limit, as versions that a later one replaces do not count.
 *
 * A build may call lockstep_build_share(); other collective functions fail in it, on this rank
 * alone. It must not free the group or the agreement. A C++ exception from it is a failed build;
 * nothing else may unwind through lockstep. */
typedef int (*lockstep_build)(void* context, int entry, const lockstep_decision* decision,
                              lockstep_fingerprint* program, lockstep_built* built);
/* Makes the build fail for the reason `text`, whatever the callback returns. `code`: TRACE_ERROR,
 * COMPILE_ERROR or ENVIRONMENT; any other means COMPILE_ERROR. Only the first call counts. */
void lockstep_build_failed(lockstep_built* built, int code, const char* text);
/* Adds a guard: a condition on sizes and ints on which the program relies, in names of the inputs:
 *   "tokens.size(0) % 8 == 0"    "x.size(0) * 2 <= Max(y.size(1), n)"
 * Operators: + - * // % Mod Min Max of sizes, ints and whole numbers (a quotient is rounded down),
 * and one of == != < <= > >=. `where`: "kernel.c:41" for reports; may be NULL. The condition is
 * tested on every rank's own inputs before the version is added: if it is false on one rank, that
 * is BRANCH_DIVERGENCE on all. From then on the version fits only inputs that meet the condition.
 * With LOCKSTEP_SAME_GRAPH all ranks must give the same guards. Errors fail the build, whatever the
 * callback returns: BAD_INPUT (a text that cannot be read, a size that is marked unbacked),
 * BRANCH_DIVERGENCE (the decision's static sizes make the condition false). */
int lockstep_build_guard(lockstep_built* built, const char* condition, const char* where);
/* Adds a uniform size: a size or int that `what`, such as "all_reduce", needs equal on all ranks,
 * though it may differ between calls. `size` is "x.size(0) * 2", with the operators of guards. The
 * ranks compare its values before the version is added, and in the vote of each call of that
 * version, at no extra cost. If the values differ, that is CONSTRAINT_VIOLATION on all ranks, with
 * the values, `what` and `where`, and the next call works. All ranks must add the same uniform
 * sizes, or it is GRAPH_DIVERGENCE. The build fails with BAD_INPUT as for a guard, and under
 * LOCKSTEP_SHARED_SIZES. */
int lockstep_build_uniform(lockstep_built* built, const char* size, const char* what,
                           const char* where);
/* Shared builds: one rank builds for all, once per job, and the bytes are kept for the next job.
 * `of` is a fingerprint of all that the bytes depend on, such as the compiler's version and the
 * processor. `bytes` becomes NULL if there are none; else they are valid until the next call of one
 * of these two functions or the end of the callback.
 *
 * Returns the bytes that this rank has kept under `of`, in files that only this user can write
 * (LOCKSTEP_CACHE_DIR) and whose SHA-256 is checked. Not collective. */
int lockstep_build_kept(lockstep_built* built, lockstep_fingerprint of, const void** bytes,
                        size_t* size);
/* Collective, called in the callbacks of all ranks equally often and in the same order. Gives the
 * bytes `mine` of rank 0 to all ranks with the same `of`, which keep them; ranks with another `of`
 * get NULL. `mine` is NULL on the other ranks, and on rank 0 if it has no bytes. Rank 0 sends the
 * SHA-256 first: ranks that have kept these bytes receive no transfer. More than 64 MiB are not
 * sent, and ranks without them get NULL. Call this after the build on rank 0, and before it on the
 * other ranks, which wait here for rank 0's build. Errors, which fail the build: ENVIRONMENT (the
 * received bytes are wrong); if a rank does not call this, the error of its build or
 * FRAME_MISMATCH, on all ranks. */
int lockstep_build_share(lockstep_built* built, lockstep_fingerprint of, const void* mine,
                         size_t mine_size, const void** bytes, size_t* size);

/* Collective, before each call of the frame with the name `frame`. `build` runs on all ranks if no
 * version fits on every rank; the version is added only if all ranks built it. `entry`: the version
 * to run now; -1: the limit is reached, run without a compiled version this time. `is_new`: 1 if it
 * was built in this call. `decision`: the version's decision; for -1 the decision of this call if
 * the observation has fields (valid until the next call), else NULL. `is_new` and `decision` may be
 * NULL. The caller keeps `observation`. Errors: all codes under "Ranks disagree" and "One rank
 * failed", BAD_INPUT (a wrong argument, a broken promise). */
int lockstep_agree(lockstep_agreement* agreement, const char* frame,
                   const lockstep_observation* observation, lockstep_build build, void* context,
                   int* entry, int* is_new, const lockstep_decision** decision);

/* Like lockstep_agree(), for a program that relies on conditions beyond its inputs. `untested`:
 * pass 0 if this rank has verified these conditions for the version of the previous call, else 1;
 * becomes 1 on all ranks if some rank passed 1 or the call was prefetched, else 0. If it is 0
 * and `entry` is the version of the previous call, ranks need not test the conditions together. */
int lockstep_agree_tested(lockstep_agreement* agreement, const char* frame,
                          const lockstep_observation* observation, int* untested,
                          lockstep_build build, void* context, int* entry, int* is_new,
                          const lockstep_decision** decision);

/* Commits to a call of `frame` with these inputs, so that its vote proceeds while the program works
 * (lockstep_poke()). Calls of a frame must be made in the order in which they were committed to.
 * Every rank must commit, or none. Does not wait; the caller keeps `observation`. The call itself
 * is lockstep_agree() with the same sizes, ints, bools, marks and fields. A call with other values
 * is BAD_INPUT, with the value promised and the value given. All ranks get this error if a version
 * has to be built. Otherwise the other ranks are already running, so the watchdog ends the job with
 * this error and exit code 2. A wrong argument fails here, and in the next collective function on
 * all ranks. */
int lockstep_prefetch(lockstep_agreement* agreement, const char* frame,
                      const lockstep_observation* observation);

/* ---- Audit ------------------------------------------------------------------------------------
 */

typedef enum lockstep_collectives {
  LOCKSTEP_COLLECTIVES_UNKNOWN,
  LOCKSTEP_COLLECTIVES_NONE,
  LOCKSTEP_COLLECTIVES_LISTED,
  /* A list of the collectives issued since the last audited call; the program's are not known. */
  LOCKSTEP_COLLECTIVES_ISSUED
} lockstep_collectives;

/* The program that this rank, without the others, has decided to run. */
typedef struct lockstep_run {
  uint32_t struct_size; /* sizeof(lockstep_run) */
  int32_t is_new;       /* compiled for this call, not taken from a cache */
  lockstep_fingerprint program;
  int32_t collectives_known;        /* a lockstep_collectives */
  lockstep_fingerprint collectives; /* LISTED, ISSUED: fingerprint of the ordered list */
  /* For reports: a line of a few words, then the program's text; may be NULL. Reports show the
   * first line that differs. Text after a tab in a line is shown, but not compared. */
  const char* program_text;
  const char* collectives_text; /* like program_text, with one collective per line */
  const char* trouble;          /* not NULL: the reason why this rank cannot run */
} lockstep_run;

/* Collective. Called instead of lockstep_agree(): compares what the ranks are about to run and
 * changes nothing. `times`: 0 if all ranks run the same program; else how often this difference has
 * been found so far, and lockstep_finding() has the report, to be shown if `times` is 1.
 * `observation` may be NULL; its fields are ignored, because nothing is decided. Errors, before any
 * program runs: GRAPH_DIVERGENCE (the collectives would not match), FRAME_MISMATCH, COMPILE_ERROR
 * (`trouble` of a rank). */
int lockstep_audit(lockstep_agreement* agreement, const char* frame,
                   const lockstep_observation* observation, const lockstep_run* run,
                   uint64_t* times);
/* The report of the last audited call; NULL: no difference. Valid until the next audited call. */
const lockstep_report* lockstep_finding(const lockstep_agreement* agreement);
/* A summary of the audit, a few lines, for the end of the job; valid until the next call of this
 * function. Empty for NULL. */
const char* lockstep_audit_summary(lockstep_agreement* agreement);

#ifdef __cplusplus
}
#endif
#endif
