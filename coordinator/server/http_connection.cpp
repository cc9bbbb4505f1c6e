#include <algorithm>
#include <utility>

#include <lockstep/coordinator/server/http_connection.h>

namespace lockstep::coordinator {

void HttpConnection::answer(HttpAnswer answer, bool head_only) {
  std::string text = head_of(answer);
  if (!head_only) text += answer.body;
  now_ = std::make_shared<const std::string>(std::move(text));
  answered_ = true;
  admitted_ = answer.status == 200;
  streams_ = answer.stream && !head_only;
}

std::string HttpConnection::take(std::span<const std::byte> bytes,
                                 const Surroundings& surroundings) {
  if (answered_) return {};
  const auto taken = reader_.take(bytes);
  if (const auto* refusal = std::get_if<HttpRefusal>(&taken)) {
    answer(answer_of(*refusal), false);
    return refusal->message;
  }
  const auto& request = std::get<std::optional<HttpRequest>>(taken);
  if (!request) return {};
  const auto admitted = admit(*request, surroundings.door());
  if (const auto* refused = std::get_if<HttpAnswer>(&admitted)) {
    answer(*refused, request->method == "HEAD");
    return refused->status == 403 || refused->status == 401 ? refused->body : std::string{};
  }
  const auto& wish = std::get<AcceptedRequest>(admitted);
  answer(surroundings.content(wish.resource), wish.head_only);
  return {};
}

Bytes HttpConnection::more() {
  if (!now_) {
    now_ = std::exchange(next_, nullptr);
    sent_ = 0;
  }
  if (!now_) return {};
  const auto rest = std::as_bytes(std::span(*now_)).subspan(sent_);
  const auto piece = rest.first(std::min(kPieceBytes, rest.size()));
  Bytes out(piece.begin(), piece.end());
  sent_ += piece.size();
  if (sent_ == now_->size()) now_.reset();
  return out;
}

void HttpConnection::update(std::shared_ptr<const std::string> event) {
  if (streams_) next_ = std::move(event);
}

}  // namespace lockstep::coordinator
