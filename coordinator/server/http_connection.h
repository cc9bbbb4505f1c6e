// One HTTP connection, without its socket: takes one request, and returns one answer or a stream of
// updates, in pieces.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <lockstep/coordinator/server/http_answer.h>

namespace lockstep::coordinator {

/// One connection. Single-threaded.
class HttpConnection {
 public:
  struct Surroundings {
    std::function<HttpAccess()> door;
    std::function<HttpAnswer(Resource)> content;
  };

  /// Returns a line for the log if the request was refused; else an empty text.
  [[nodiscard]] std::string take(std::span<const std::byte> bytes,
                                 const Surroundings& surroundings);
  /// The next piece to send, at most kPieceBytes; empty: nothing to send.
  [[nodiscard]] Bytes more();
  /// Queues an update for a connection that follows updates. The update replaces a queued update of
  /// which no byte is sent, so at most two wait for a slow reader.
  void update(std::shared_ptr<const std::string> event);

  [[nodiscard]] bool answered() const { return answered_; }
  /// True if the request was accepted.
  [[nodiscard]] bool admitted() const { return admitted_; }
  [[nodiscard]] bool streams() const { return streams_; }
  /// True if nothing more will be sent.
  [[nodiscard]] bool over() const { return answered_ && !streams_ && !now_; }

  static constexpr std::size_t kPieceBytes = 60 * 1024;

 private:
  void answer(HttpAnswer answer, bool head_only);
  HttpReader reader_;
  bool answered_ = false, admitted_ = false, streams_ = false;
  std::shared_ptr<const std::string> now_, next_;  // the text being sent, and the next one
  std::size_t sent_ = 0;                           // bytes of now_ sent so far
};

}  // namespace lockstep::coordinator
