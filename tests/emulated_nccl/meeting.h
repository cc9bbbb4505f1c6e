// Where the ranks of one emulated communicator meet: matches what they launch, does the arithmetic
// and tells each of them its part. Lives in the process that made the unique id, as NCCL's own
// bootstrap does.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "wire.h"

namespace lockstep::emulated {

/// Thread-safe. Stricter than NCCL, which moves garbage or hangs where ranks do not fit together:
/// here all of them get ncclInvalidUsage and the reason.
class Meeting : public std::enable_shared_from_this<Meeting> {
 public:
  /// Takes ranks in at a new socket until all have come; false where there is no socket.
  [[nodiscard]] static bool open(SocketName& name);

 private:
  struct Member {
    bool here = false;
    bool finalized = false;
    Greeting greeting;
    Launched* launched = nullptr;  // null: it launches nothing at present
    std::vector<bool> done;        // per operation
    Answered answer;
  };

  void take_in(int listener);
  void serve(int socket);
  [[nodiscard]] Answered join(const Greeting& greeting, int socket);
  [[nodiscard]] Answered launch(int rank, Launched& launched, int socket);
  /// Until `done`, a failure, or the rank at `socket` has gone.
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, int rank, int socket, Done done);
  void leave(int rank);

  // All with mutex_ held.
  void match();
  void match_pairs(Member& from, int from_rank, Member& to, int to_rank);
  void match_collective();
  void carry_out(const Operation& operation);
  void fail(ncclResult_t result, std::string text);
  [[nodiscard]] bool all_here() const;

  std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  std::vector<Member> members_;
  ncclResult_t failed_ = ncclSuccess;
  std::string why_;
};

}  // namespace lockstep::emulated
