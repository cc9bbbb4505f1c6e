/* The agreement of three ranks: vote, exchange and commit, with the messages of collectives/vote.cpp
 * and collectives/tree.cpp for a group of three, and at most FAULTS faults at any point. Checked
 * exhaustively by scripts/model-check; README.md says what is covered and what is not.
 *
 * A size of 0 or 1 is each rank's input. An entry, and with it the state, is the set of sizes that
 * the group had seen when it was made: {0} and {1} are static entries, {0, 1} is a dynamic one.
 *
 * Built with one of SABOTAGE_* the model must fail; built with one of WITNESS_* it must reach
 * what the name says, which shows as a failed assertion. */

#ifndef CALLS
#define CALLS 2
#endif
#ifndef FAULTS
#define FAULTS 1
#endif

mtype = { Vote, Payload };

/* A vote is one word, combined by AND: the entry fits; key, complement; state, complement; flags,
 * inverted. Ranks are equal in a field if field | complement is all ones. */
#define kFits 1
#define KEY(k) (((k) << 1) | ((3 - (k)) << 3))
#define STATE(s) (((s) << 5) | ((3 - (s)) << 7))
#define kErrorFlag 512
#define kTraceFlag 1024
#define kCompileFlag 2048
#define kFlags (kErrorFlag | kTraceFlag | kCompileFlag)
#define SAME_KEY(v) ((((v) >> 1) | ((v) >> 3)) & 3) == 3
#define SAME_STATE(v) ((((v) >> 5) | ((v) >> 7)) & 3) == 3
#define RAISED(v, flag) (((v) & (flag)) == 0)

#define kFrame 1       /* the key of the frame that all ranks call */
#define kOtherFrame 2  /* the key of a frame that nobody else calls */
#define kFinish 3      /* the key of the last round of the job */

/* What a call came to. Two ranks must never have different ones of the same call. */
#define kUnknown 0
#define REUSED(entry) (4 | (entry))
#define COMMITTED(entry) (8 | (entry))
#define JOINT_ERROR(rank_table) (128 | (rank_table))
#define IS_ERROR(outcome) ((outcome) >= 128)

/* From rank a to rank b: wire[3 * a + b]. `round` is no part of the protocol: it is there to see
 * that no message of one round is ever taken for one of another. */
chan wire[9] = [3] of { mtype, byte /* round */, short /* word */ };

byte faults_left = FAULTS;
bool crash_left = true, error_left = true;
bool gone[3];        /* crashed, or left after a verdict of the watch */
bool ended[3];       /* for good or ill */
bool any_crash;
byte faulty_call = 255;
byte outcome[3 * (CALLS + 1)];

#define ANY_GONE (gone[0] || gone[1] || gone[2])

/* The rank may be gone from here on. */
inline may_crash() {
  if
  :: atomic { faults_left > 0 && crash_left -> faults_left--; crash_left = false; any_crash = true };
     goto crashed
  :: true
  fi
}

/* Sets `failed` if an error strikes this rank here. */
inline may_fail() {
  failed = false;
  if
  :: atomic { faults_left > 0 && error_left ->
              faults_left--; error_left = false; faulty_call = call; failed = true }
  :: true
  fi
}

inline send(to, kind) {
  may_crash();
  wire[3 * self + to] ! kind, round, word
}

/* The watch ends the wait for a rank that is gone, and may do so before a message of that rank that
 * is still on its way arrives: then the message is as good as lost. */
inline receive(from, kind) {
  may_crash();
  if
  :: wire[3 * from + self] ? got_kind, got_round, got ->
     assert(got_kind == kind);
     assert(got_round == round)
#ifndef SABOTAGE_UNWATCHED
  :: ANY_GONE -> goto lost
#endif
  fi
}

/* `word` becomes the AND over all ranks, by collectives/vote.cpp for three: rank 2 folds into rank 0,
 * 0 and 1 swap, 0 tells 2. */
inline vote() {
  round++;
  if
  :: self == 0 ->
     receive(2, Vote); word = word & got;
     send(1, Vote); receive(1, Vote); word = word & got;
     send(2, Vote)
  :: self == 1 ->
     send(0, Vote); receive(0, Vote); word = word & got
  :: self == 2 ->
     send(0, Vote); receive(0, Vote); word = word & got
  fi
}

/* What the tree joins. Observations: the sizes seen. A rank table: the local error
 * of the lowest rank that has one (bits 0-3), and the keys of all (bits 4-5). */
#define JOINED(lower, higher, rank_table) \
  (!(rank_table) -> (lower) | (higher) \
           : ((((lower) & 15) != 0 -> (lower) & 15 : (higher) & 15) | (((lower) | (higher)) & 48)))

/* `word` becomes the join over all ranks, by collectives/tree.cpp for three: rank 1 is the root, 0
 * its left and 2 its right child. */
inline exchange(rank_table) {
  round++;
  if
  :: self == 1 ->
     receive(0, Payload); word = JOINED(got, word, rank_table);
     receive(2, Payload); word = JOINED(word, got, rank_table);
     send(0, Payload); send(2, Payload)
  :: self != 1 ->
     send(1, Payload); receive(1, Payload); word = got
  fi
}

/* What every rank learns of a round that did not come out clean; never "no rank knows why". */
inline collect_rank_table() {
  word = local_error | ((key == kOtherFrame -> 2 : 1) << 4);
  exchange(true);
  if
  :: (word & 15) != 0 -> result = JOINT_ERROR(word & 15)
  :: else -> assert((word & 48) == 48); result = JOINT_ERROR(16)
  fi
}

inline record(what) {
  d_step {
    /* All ranks alike. */
    assert(outcome[3 * call] == kUnknown || outcome[3 * call] == what);
    assert(outcome[3 * call + 1] == kUnknown || outcome[3 * call + 1] == what);
    assert(outcome[3 * call + 2] == kUnknown || outcome[3 * call + 2] == what);
    outcome[3 * call + self] = what;
    /* An error on one rank is the error of the call, and a call fails for no other reason. */
    assert(IS_ERROR(what) == (faulty_call == call))
  }
}

/* One call, as worker/agree/agreement/call_machine.cpp has it; leaves what it came to in `result`. */
inline frame_call() {
  key = kFrame; local_error = 0;
  may_fail();
  if
  :: failed -> local_error = 1 + 4 * self                /* something went wrong before the call */
  :: failed -> key = kOtherFrame                     /* the wrong frame */
  :: !failed
  fi;
  if
  :: size = 0
  :: size = 1
  fi;
#ifdef SABOTAGE_ERROR_SKIPS_THE_VOTE
  if :: local_error != 0 -> result = JOINT_ERROR(local_error); goto called :: else fi;
#endif
  word = KEY(key) | STATE(entry) | ((entry >> size) & 1) | (local_error != 0 -> kFlags - kErrorFlag : kFlags);
  vote();
  if
#ifdef SABOTAGE_KEY_IGNORED
  :: (word & kFlags) != kFlags -> collect_rank_table(); goto called
#else
  :: !(SAME_KEY(word)) || (word & kFlags) != kFlags -> collect_rank_table(); goto called
#endif
  :: else
  fi;
  if
  :: (SAME_STATE(word)) && (word & kFits) -> result = REUSED(entry); goto called
  :: else
  fi;

  word = entry | (1 << size);
  exchange(false);
  decision = word;

  may_fail();                                         /* the trace */
  if :: failed -> local_error = 2 + 4 * self :: else fi;
  word = KEY(key) | STATE(decision) | kFits | (failed -> kFlags - kTraceFlag : kFlags);
  vote();
  assert(SAME_STATE(word));                           /* equal decisions, whoever failed */
  if :: RAISED(word, kTraceFlag) -> collect_rank_table(); goto called :: else fi;

  may_fail();                                         /* the compiler */
  if :: failed -> local_error = 3 + 4 * self :: else fi;
#ifdef SABOTAGE_COMMIT_UNVOTED
  if :: !failed -> entry = decision; record(COMMITTED(decision)) :: else fi;
#endif
  word = KEY(key) | STATE(decision) | kFits | (failed -> kFlags - kCompileFlag : kFlags);
  vote();
  if
#ifdef SABOTAGE_OWN_FAILURE_ONLY
  :: failed -> collect_rank_table(); goto called
#else
  :: RAISED(word, kCompileFlag) -> collect_rank_table(); goto called
#endif
  :: else
  fi;
  entry = decision;
  result = COMMITTED(decision)
}

/* The last round: a vote on how the ranks stand. */
inline finish() {
  key = kFinish; local_error = 0;
  may_fail();
  if :: failed -> local_error = 1 + 4 * self :: else fi;
  word = KEY(key) | STATE(0) | (local_error != 0 -> kFlags - kErrorFlag : kFlags);
  vote();
  assert(SAME_KEY(word));
  if
  :: (word & kFlags) != kFlags -> collect_rank_table()
  :: else -> result = REUSED(0)
  fi
}

proctype rank(byte self) {
  byte call, entry, size, key, local_error, decision, round, result, got_round;
  mtype got_kind;
  short word, got;
  bool failed;

  do
  :: call < CALLS ->
     frame_call();
called:
     record(result);
#ifdef WITNESS_RECOVERY
     assert(!(call > 0 && faulty_call == call - 1 && result >= 8 && result < 128));
#endif
#ifdef WITNESS_REUSE
     assert(!(call > 0 && result < 8));
#endif
#ifdef WITNESS_DYNAMIC
     assert(!(call > 0 && result == COMMITTED(3)));
#endif
     d_step { result = 0; size = 0; decision = 0; local_error = 0; word = 0; got = 0; call++ }
  :: else -> break
  od;
  finish();
  record(result);
  /* Nothing is left over that a later round could take for its own. */
  assert(empty(wire[self]) && empty(wire[3 + self]) && empty(wire[6 + self]));
  goto over;

crashed:
  gone[self] = true;
  goto over;

lost:
  /* The watch never blames where all ranks are there. */
  assert(any_crash);
#ifdef WITNESS_LOST_AMID_A_COMMIT
  /* One rank has committed a call that this one leaves unfinished. */
  assert(call >= CALLS || outcome[3 * call] < 8 || outcome[3 * call] >= 128);
#endif
  gone[self] = true;

over:
  ended[self] = true
}

init {
  atomic { run rank(0); run rank(1); run rank(2) }
}

/* Every rank comes to its end, whatever strikes whom, as long as each that can move does. */
ltl every_rank_ends { <> (ended[0] && ended[1] && ended[2]) }
