#include <algorithm>
#include <utility>

#include "handle.h"
#include <fmt/format.h>
#include <lockstep_lines.h>

#include <lockstep/collectives/lines/lines.h>

using lockstep::bad_input;
using lockstep::Rank;
using lockstep::Result;
using lockstep::capi::fail;
using lockstep::capi::guarded;
namespace collectives = lockstep::collectives;
namespace lines = lockstep::lines;

struct lockstep_lines {
  std::unique_ptr<lines::Lines> core;
  std::string place;
};

struct lockstep_wait {
  lines::Lines& core;
  lines::Lines::Wait wait;
};

namespace {

constexpr const char* kNoLines = "lines is NULL; open them with lockstep_lines_open()";

std::string_view view(const char* text) { return text == nullptr ? std::string_view() : text; }

std::span<const std::int64_t> numbers(const std::int64_t* begin, std::uint32_t count) {
  return begin == nullptr ? std::span<const std::int64_t>() : std::span(begin, count);
}

Result<lines::Operation> operation_of(const lockstep_operation* given) {
  if (given == nullptr || given->struct_size != sizeof *given)
    return bad_input("operation is NULL, or its struct_size is another");
  if (given->needs < LOCKSTEP_NEEDS_ALL || given->needs > LOCKSTEP_NEEDS_RECEIVER)
    return bad_input(fmt::format("{} is no lockstep_needs", given->needs));
  return lines::Operation{.kind = view(given->kind),
                          .dtype = view(given->dtype),
                          .reduction = view(given->reduction),
                          .root = given->root,
                          .needs = static_cast<lines::Needs>(given->needs),
                          .paired = given->paired != 0,
                          .elements = numbers(given->elements, given->tensors),
                          .shape = numbers(given->shape, given->ndim),
                          .to = numbers(given->to, given->to_count),
                          .from = numbers(given->from, given->from_count),
                          .place = view(given->place)};
}

lockstep::Duration duration_of(double seconds) {
  return std::chrono::duration_cast<lockstep::Duration>(
      std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e9)));
}

}  // namespace

extern "C" {

int lockstep_lines_open(int rank, lockstep_lines** out) {
  return guarded([&]() -> Result<void> {
    if (out == nullptr || rank < 0) return bad_input("lines is NULL, or the rank is below 0");
    auto opened = lines::Lines::open(Rank{rank});
    if (!opened) return opened.error();
    std::string place = (*opened)->posts().place();
    *out = new lockstep_lines{std::move(*opened), std::move(place)};
    return {};
  });
}

const char* lockstep_lines_place(const lockstep_lines* given) {
  return given == nullptr ? "" : given->place.c_str();
}

int lockstep_lines_join(lockstep_lines* given, const char* const* places, size_t ranks,
                        size_t* seen) {
  return guarded([&]() -> Result<void> {
    if (given == nullptr) return bad_input(kNoLines);
    if (places == nullptr && ranks > 0) return bad_input("places is NULL");
    std::vector<std::string> words;
    for (size_t rank = 0; rank < ranks; ++rank) words.emplace_back(view(places[rank]));
    given->core->posts().join(words);
    if (seen != nullptr) *seen = given->core->posts().seen().size();
    return {};
  });
}

int lockstep_lines_head(lockstep_lines* given, int32_t* head) {
  return guarded([&]() -> Result<void> {
    if (given == nullptr || head == nullptr) return bad_input("lines or head is NULL");
    const auto lowest = given->core->head();
    if (!lowest) return lowest.error();
    *head = lowest->value;
    return {};
  });
}

int lockstep_lines_meet(lockstep_lines* given, const int32_t* heads, size_t ranks,
                        const char* address, const char* secret, double seconds) {
  return guarded([&]() -> Result<void> {
    if (given == nullptr) return bad_input(kNoLines);
    if (heads == nullptr) return bad_input("heads is NULL");
    const auto at = collectives::Endpoint::parse(view(address));
    if (!at) return at.error();
    const auto shared = collectives::secret_of(view(secret), "secret");
    if (!shared) return shared.error();
    return given->core->meet({heads, heads + ranks}, {.rendezvous = *at,
                                                      .rank = {},
                                                      .secret = *shared,
                                                      .encryption = collectives::encryption_to(*at),
                                                      .build = std::string(lockstep_version()),
                                                      .patience = duration_of(seconds),
                                                      .out_of_reach = duration_of(seconds)});
  });
}

int lockstep_lines_group(lockstep_lines* given, lockstep_fingerprint key, const int32_t* members,
                         size_t count, const char* name, int* group) {
  return guarded([&]() -> Result<void> {
    if (given == nullptr) return bad_input(kNoLines);
    if (members == nullptr || group == nullptr) return bad_input("members or group is NULL");
    lines::Group made{{key.high, key.low}, {}, -1, std::string(view(name))};
    for (size_t i = 0; i < count; ++i) {
      made.members.push_back(Rank{members[i]});
      if (members[i] == given->core->self().value) made.self = static_cast<int>(i);
    }
    if (made.self < 0) return bad_input("this rank is no member of the group");
    *group = given->core->group(std::move(made));
    return {};
  });
}

int lockstep_lines_issue(lockstep_lines* given, int group, const lockstep_operation* operation,
                         uint64_t* number) {
  return guarded([&]() -> Result<void> {
    if (given == nullptr) return bad_input(kNoLines);
    if (!given->core->has_group(group))
      return bad_input(fmt::format("there is no group {}", group));
    const auto read = operation_of(operation);
    if (!read) return read.error();
    const auto issued = given->core->issue(group, *read);
    if (!issued) return issued.error();
    if (number != nullptr) *number = *issued;
    return {};
  });
}

uint64_t lockstep_lines_apart(const lockstep_lines* given) {
  return given == nullptr ? 0 : given->core->apart();
}

const char* lockstep_lines_apart_text(const lockstep_lines* given, uint64_t number) {
  const std::string* text = given == nullptr ? nullptr : given->core->place_report_text(number);
  return text == nullptr ? nullptr : text->c_str();
}

void lockstep_lines_issued(lockstep_lines* given, int group) {
  if (given != nullptr && given->core->has_group(group)) given->core->issued(group);
}

int lockstep_lines_tell(lockstep_lines* given, lockstep_fingerprint key,
                        const lockstep_operation* what) {
  return guarded([&]() -> Result<void> {
    if (given == nullptr) return bad_input(kNoLines);
    const auto read = operation_of(what);
    if (!read) return read.error();
    return given->core->tell({key.high, key.low}, *read);
  });
}

int lockstep_lines_told(lockstep_lines* given, lockstep_fingerprint key, int32_t rank,
                        uint64_t number, lockstep_told* told) {
  return guarded([&]() -> Result<void> {
    if (given == nullptr) return bad_input(kNoLines);
    if (told == nullptr || told->struct_size != sizeof *told)
      return bad_input("told is NULL, or its struct_size is another");
    if (rank < 0) return bad_input("the rank is below 0");
    thread_local lines::Lines::Told last;
    last = given->core->published_by(Rank{rank}, {key.high, key.low}, number);
    *told = {sizeof *told,
             last.times,
             last.texts.kind.c_str(),
             last.texts.dtype.c_str(),
             last.texts.reduction.c_str(),
             last.texts.place.c_str(),
             last.entry.posted.to,
             last.entry.values.data()};
    return {};
  });
}

int lockstep_lines_in_flight(lockstep_lines* given, int group, uint64_t number) {
  return guarded([&]() -> Result<void> {
    if (given == nullptr) return bad_input(kNoLines);
    if (!given->core->has_group(group))
      return bad_input(fmt::format("there is no group {}", group));
    return given->core->in_flight(group, number, lockstep::SystemClock().now());
  });
}

int lockstep_lines_arrived(lockstep_lines* given, int group, uint64_t number) {
  if (given == nullptr || !given->core->has_group(group)) return 0;
  return static_cast<int>(given->core->arrived(group, number));
}

int lockstep_wait_begin(lockstep_lines* given, int group, uint64_t number, lockstep_wait** wait) {
  return guarded([&]() -> Result<void> {
    if (given == nullptr || wait == nullptr) return bad_input("lines or wait is NULL");
    if (!given->core->has_group(group))
      return bad_input(fmt::format("there is no group {}", group));
    *wait = new lockstep_wait{
        *given->core, given->core->begin_wait(group, number, lockstep::SystemClock().now())};
    return {};
  });
}

int lockstep_wait_look(lockstep_wait* wait) {
  return guarded([&]() -> Result<void> {
    if (wait == nullptr) return bad_input("wait is NULL");
    return wait->core.look(wait->wait, lockstep::SystemClock().now());
  });
}

void lockstep_wait_end(lockstep_wait* wait) {
  if (wait == nullptr) return;
  wait->core.end_wait(wait->wait);
  delete wait;
}

void lockstep_lines_threads_beside(lockstep_lines* given, int are_there) {
  if (given != nullptr) given->core->posts().has_other_threads(are_there != 0);
}

void lockstep_lines_take_from_any(lockstep_lines* given) {
  if (given != nullptr) given->core->posts().take_from_any();
}

void lockstep_lines_deadline(lockstep_lines* given, double seconds) {
  if (given != nullptr) given->core->deadline(duration_of(seconds));
}

void lockstep_lines_alive(lockstep_lines* given, double seconds) {
  if (given != nullptr)
    given->core->posts().alive_until(lockstep::SystemClock().now() + duration_of(seconds));
}

int lockstep_lines_peer(const lockstep_lines* given, int32_t rank, int32_t* state,
                        const char** text) {
  return guarded([&]() -> Result<void> {
    if (given == nullptr) return bad_input(kNoLines);
    if (state == nullptr || text == nullptr) return bad_input("state or text is NULL");
    if (rank < 0) return bad_input(fmt::format("{} is no rank", rank));
    static thread_local std::string kept;
    const lines::SharedPosts& posts = given->core->posts();
    const lines::PeerState found = posts.state(Rank{rank});
    *state = static_cast<int32_t>(found);
    kept = found == lines::PeerState::Gone ? posts.gone_text(Rank{rank}) : std::string();
    *text = kept.c_str();
    return {};
  });
}

void lockstep_lines_gone(lockstep_lines* given, const char* text) {
  if (given != nullptr) given->core->gone(view(text));
}

int lockstep_lines_finish(lockstep_lines* given) {
  return guarded([&]() -> Result<void> {
    if (given == nullptr) return bad_input(kNoLines);
    return given->core->finish();
  });
}

void lockstep_lines_leave(lockstep_lines* given) {
  if (given != nullptr) given->core->leave();
}

void lockstep_lines_free(lockstep_lines* given) { delete given; }

}  // extern "C"
