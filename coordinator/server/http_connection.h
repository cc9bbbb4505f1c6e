// One HTTP connection, without its socket: one request in, one answer or a stream of updates out,
// in pieces.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <lockstep/coordinator/server/http_answer.h>

namespace lockstep::coordinator {

/// One connection. One thread.
class HttpConnection {
 public:
  struct Surroundings {
    std::function<HttpDoor()> door;
    std::function<HttpAnswer(Resource)> content;
  };

  /// Returns a line for the log if the request was refused; else an empty text.
  [[nodiscard]] std::string take(std::span<const std::byte> bytes,
                                 const Surroundings& surroundings);
  /// The next piece to send, at most kPieceBytes; empty: nothing to send.
  [[nodiscard]] Bytes more();
  /// Queues an update for a connection that follows updates. It replaces one that has not begun to
  /// be sent, so a slow reader holds at most two.
  void update(std::shared_ptr<const std::string> event);

  [[nodiscard]] bool answered() const { return answered_; }
  /// The request was accepted.
  [[nodiscard]] bool admitted() const { return admitted_; }
  [[nodiscard]] bool streams() const { return streams_; }
  /// Nothing will follow.
  [[nodiscard]] bool over() const { return answered_ && !streams_ && !now_; }

  static constexpr std::size_t kPieceBytes = 60 * 1024;

 private:
  void answer(HttpAnswer answer, bool head_only);
  HttpReader reader_;
  bool answered_ = false, admitted_ = false, streams_ = false;
  std::shared_ptr<const std::string> now_, next_;  // being sent, and next
  std::size_t sent_ = 0;                           // of now_
};

}  // namespace lockstep::coordinator
