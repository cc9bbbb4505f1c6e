/* A controller for C and what can call C: one process that has the workers of a job (`lockstep
 * worker`) run saved programs on tensors that stay there. Results, texts and reports are as in
 * lockstep.h.
 *
 * What fails on one worker fails on all, and is the error of the next function that is called.
 * After such an error the next call works, unless the workers have ended (GONE, STUCK, RANK_LOST,
 * ENVIRONMENT). Nothing waits but lockstep_controller_connect(), _load(), _read(), _fetch(),
 * _sizes(), _settle() and _finish(), and a call where too much is on its way already.
 *
 * Threads: a controller, with its programs, takes one call at a time, from any thread: one that
 * comes while a call of another thread is under way fails with BAD_INPUT, which names both threads,
 * and has touched nothing; a controller or a program that is freed then is kept. Tensors are freed,
 * and what was fetched is looked at, on any thread. */
#ifndef LOCKSTEP_CONTROLLER_H
#define LOCKSTEP_CONTROLLER_H

#include <lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lockstep_controller lockstep_controller;
/* Tensors of the workers, each with a name. */
typedef struct lockstep_tensors lockstep_tensors;
typedef struct lockstep_program lockstep_program;
/* A tensor that has been fetched. */
typedef struct lockstep_fetched lockstep_fetched;

/* A tensor of this process: row-major elements, a bool a byte. Read during the call only. */
typedef struct lockstep_array {
  lockstep_dtype dtype;
  uint32_t ndim;
  const int64_t* sizes;
  const void* elements;
} lockstep_array;

/* `where`: the address file of the workers, or an address such as "10.0.0.1:4700", for which the
 * secret is that of LOCKSTEP_TOKEN or LOCKSTEP_TOKEN_FILE; NULL: the file in the cache directory.
 * `deadline_seconds`: how long worker 0 may not be heard of while something is waited for; 0 means
 * 60. `interrupted`: asked, with `context`, some times a second during a wait; another value than 0
 * ends the wait with GONE, and what the workers were told goes on; NULL: nobody is asked. Errors:
 * ENVIRONMENT (no file, nobody listens), VERSION (another secret or version), BAD_INPUT (no
 * address; the workers have another controller), STUCK. */
int lockstep_controller_connect(const char* where, double deadline_seconds,
                                int (*interrupted)(void* context), void* context,
                                lockstep_controller** controller);
/* How many there are; -1 if `controller` is NULL. */
int lockstep_controller_workers(const lockstep_controller* controller);
/* Ends the workers, once they have done all that they were told. */
int lockstep_controller_finish(lockstep_controller* controller);
/* Waits until they have. */
int lockstep_controller_settle(lockstep_controller* controller);
/* The workers keep what they have for the next controller. Tensors and programs of this one are of
 * no use any more, and are freed all the same. */
void lockstep_controller_free(lockstep_controller* controller);

/* `count` 1: the tensor on every worker; else one for each, of equal dtypes and numbers of dims.
 * `label`: what a later controller sees of it; NULL: "a tensor". Errors: BAD_INPUT. */
int lockstep_controller_put(lockstep_controller* controller, const lockstep_array* each,
                            size_t count, const char* label, lockstep_tensors** tensor);
/* Tensors of a safetensors file that each worker reads; "{rank}" in `path` is its number. */
int lockstep_controller_read(lockstep_controller* controller, const char* path,
                             const char* const* names, size_t count, lockstep_tensors** tensors);
/* What the workers held when this controller came, by label: once. What is not kept of it is
 * dropped. */
int lockstep_controller_take_over(lockstep_controller* controller, lockstep_tensors** tensors);

/* How many tensors; 0 if `tensors` is NULL. Names are in order, those taken over as they were
 * made. */
size_t lockstep_tensors_count(const lockstep_tensors* tensors);
/* "": there is no such tensor. */
const char* lockstep_tensors_name(const lockstep_tensors* tensors, size_t index);
/* -1: there is no such tensor. */
int lockstep_tensors_dtype(const lockstep_tensors* tensors, size_t index);
/* One of them alone; both have it then. Errors: BAD_INPUT. */
int lockstep_tensors_one(const lockstep_tensors* tensors, size_t index, lockstep_tensors** tensor);
/* The workers free a tensor that nobody has any more. */
void lockstep_tensors_free(lockstep_tensors* tensors);

/* The first of `tensors` as it is on one worker. Errors: BAD_INPUT (no such worker; it failed). */
int lockstep_controller_fetch(lockstep_controller* controller, const lockstep_tensors* tensors,
                              int worker, lockstep_fetched** fetched);
/* Its sizes as an i64 tensor, a row for each worker. */
int lockstep_controller_sizes(lockstep_controller* controller, const lockstep_tensors* tensors,
                              lockstep_fetched** fetched);
/* Valid until it is freed. */
lockstep_array lockstep_fetched_array(const lockstep_fetched* fetched);
void lockstep_fetched_free(lockstep_fetched* fetched);

/* A saved program (`frame.save()`, `lockstep trace --save`), read here and sent to the workers
 * once. Errors: BAD_INPUT, VERSION. */
int lockstep_controller_load(lockstep_controller* controller, const char* path,
                             lockstep_program** program);
/* "step: n int, x f64 of 1 dim -> a f64, y f64" */
const char* lockstep_program_text(const lockstep_program* program);
void lockstep_program_free(lockstep_program* program);

/* One input of a call. */
typedef struct lockstep_value {
  const char* name;
  lockstep_kind kind;
  lockstep_tensors* tensor; /* of kind LOCKSTEP_TENSOR: the first of these */
  int moved;                /* `tensor` has none any more after the call, whatever comes of it; the
                               workers free theirs during the run, if nobody else has it */
  int64_t integer;          /* of LOCKSTEP_INT and LOCKSTEP_BOOLEAN */
  double real;              /* of LOCKSTEP_FLOAT */
} lockstep_value;
/* Gives back the outputs by name before the program has run, where all of its entries have the same
 * outputs. Errors: BAD_INPUT, before anything is sent, where an input is missing, unknown, or of
 * another kind or dtype. */
int lockstep_program_call(lockstep_program* program, const lockstep_value* values, size_t count,
                          lockstep_tensors** outputs);

#ifdef __cplusplus
}
#endif
#endif
