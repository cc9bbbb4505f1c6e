#include <algorithm>
#include <bit>

#include <lockstep/collectives/lines/note.h>
#include <lockstep/collectives/lines/posts_memory.h>

namespace lockstep::lines {
namespace {

/// Maximum number of distinct entries that are sent by number; further entries are sent whole.
constexpr std::uint32_t kMostKnown = 1U << 16;
constexpr std::uint32_t kMostRanks = 1U << 20;
constexpr std::uint64_t kAny = ~std::uint64_t{0};

/// Writes fields in the order of fields().
struct Out {
  ByteWriter out;
  std::map<PostedBytes, std::uint32_t>& known;

  template <class Number>
  void number(Number value, std::uint64_t /*below*/) {
    out.u64(static_cast<std::uint64_t>(value));
  }
  void yes(bool value) { out.u8(value ? 1 : 0); }
  void span(Duration value) { out.i64(value.count()); }
  void text(const std::string& text, std::size_t /*most*/) { out.text(text); }
  template <class T, class Each>
  void list(std::vector<T>& all, std::size_t /*bytes*/, Each each) {
    out.u32(static_cast<std::uint32_t>(all.size()));
    for (T& one : all) each(one);
  }
  template <class T, class Fields>
  void maybe(std::optional<T>& value, Fields fields) {
    yes(value.has_value());
    if (value) fields(*value);
  }
  void posted(const Posted& posted) {
    Posted alike = posted;
    alike.values = 0;  // a position in memory, which differs on the two sides
    const auto bytes = std::bit_cast<PostedBytes>(alike);
    const auto found = known.find(bytes);
    out.u32(found != known.end() ? found->second : kMostKnown);
    if (found != known.end()) return;
    out.text({bytes.data(), bytes.size()});
    if (known.size() < kMostKnown) known.emplace(bytes, static_cast<std::uint32_t>(known.size()));
  }
};

/// Reads fields in the order of fields().
struct In {
  ByteReader in;
  std::vector<Posted>& known;
  bool is_sound = true;

  template <class Number>
  void number(Number& value, std::uint64_t below) {
    const std::uint64_t read = in.u64();
    is_sound = is_sound && (below == kAny || read < below);
    if (is_sound) value = static_cast<Number>(read);
  }
  void yes(bool& value) {
    const std::uint8_t read = in.u8();
    is_sound = is_sound && read < 2;
    value = read == 1;
  }
  void span(Duration& value) {
    value = Duration(in.i64());
    is_sound = is_sound && value >= Duration{0} && value < kLongest;
  }
  void text(std::string& text, std::size_t most) {
    text = in.text();
    is_sound = is_sound && text.size() <= most;
  }
  template <class T, class Each>
  void list(std::vector<T>& all, std::size_t bytes, Each each) {
    all.resize(in.count(bytes));
    for (T& one : all) {
      each(one);
      if (!is_sound || !in.ok()) return;
    }
  }
  template <class T, class Fields>
  void maybe(std::optional<T>& value, Fields fields) {
    bool is_there = false;
    yes(is_there);
    if (is_there) fields(value.emplace());
  }
  void posted(Posted& posted) {
    const std::uint32_t number = in.u32();
    if (number < known.size()) {
      posted = known[number];
      return;
    }
    const std::string bytes = in.text();
    is_sound = is_sound && number == kMostKnown && bytes.size() == sizeof posted;
    if (!is_sound) return;
    PostedBytes copy;
    std::copy_n(bytes.begin(), copy.size(), copy.begin());
    posted = std::bit_cast<Posted>(copy);
    is_sound = posted.values == 0 && posted.needs <= Needs::Receiver &&
               (posted.sizes <= kShownSizes || posted.sizes == 255);
    if (known.size() < kMostKnown) known.push_back(posted);
  }

  /// Longest span that is accepted: ten years.
  static constexpr Duration kLongest = std::chrono::hours(10 * 365 * 24);
};

template <class A>
void fields(A& a, LineKey& key) {
  a.number(key.high, kAny);
  a.number(key.low, kAny);
}

template <class A>
void fields(A& a, Entry& entry) {
  a.posted(entry.posted);
  a.list(entry.values, 8, [&](std::int64_t& value) {
    auto bits = static_cast<std::uint64_t>(value);
    a.number(bits, kAny);
    value = static_cast<std::int64_t>(bits);
  });
}

template <class A>
void fields(A& a, RankNote::Standing& now) {
  auto state = static_cast<std::uint64_t>(now.state);
  a.number(state, static_cast<std::uint64_t>(PeerState::Lost) + 1);
  now.state = static_cast<PeerState>(state);
  a.number(now.gone, kFixed);
  a.number(now.moves, kAny);
  a.number(now.issuing, 1U << 20);
  a.yes(now.has_threads_beside);
  a.yes(now.takes_from_any);
  a.span(now.alive);
  a.list(now.waits, 32, [&](RankNote::Standing::Wait& wait) {
    fields(a, wait.in.key);
    a.number(wait.in.number, kAny);
    a.span(wait.age);
  });
}

template <class A>
void fields(A& a, RankNote& note) {
  a.number(note.rank.value, kMostRanks);
  a.number(note.texts_begin, kFixed);
  a.text(note.texts, kFixed);
  a.number(note.first_line, kTableLines + 1);
  a.list(note.opened, 32, [&](RankNote::Opened& line) {
    fields(a, line.key);
    a.number(line.members, kFixed);
    a.number(line.name, kFixed);
  });
  a.list(note.came, 28, [&](RankNote::Came& came) {
    a.number(came.line, kTableLines);
    a.number(came.first, kAny);
    a.number(came.handed, kAny);
    a.list(came.entries, 8, [&](Entry& entry) { fields(a, entry); });
  });
  a.yes(note.is_whole);
  a.maybe(note.standing, [&](RankNote::Standing& now) { fields(a, now); });
}

template <class A>
void fields(A& a, Note& note) {
  a.list(note.ranks, 38, [&](RankNote& rank) { fields(a, rank); });
  a.list(note.refused, 28, [&](Note::Refused& refused) {
    fields(a, refused.key);
    auto code = static_cast<std::uint64_t>(refused.said.code);
    a.number(code, static_cast<std::uint64_t>(Code::Internal) + 1);
    refused.said.code = static_cast<Code>(code);
    a.text(refused.said.message, kTextStep);
  });
}

/// Whether an entry has as many values as it declares, and the values fit into a window.
bool has_its_values(const Entry& entry) {
  const std::size_t count = std::size_t{entry.posted.to} + entry.posted.from;
  return entry.values.size() == count && count * 8 <= kWindow;
}

}  // namespace

Bytes NoteWriter::encode(const Note& note) {
  Out out{{}, known_};
  Note written = note;
  fields(out, written);
  return std::move(out.out).take();
}

Bytes NoteWriter::with_marks(const NoteMarks& marks, std::span<const std::byte> note) {
  ByteWriter out;
  out.u64(marks.mark);
  out.u64(marks.heard);
  Bytes all = std::move(out).take();
  all.insert(all.end(), note.begin(), note.end());
  return all;
}

std::optional<NoteReader::Read> NoteReader::decode(std::span<const std::byte> bytes) {
  In in{ByteReader(bytes), known_};
  Read read;
  in.number(read.marks.mark, kAny);
  in.number(read.marks.heard, kAny);
  fields(in, read.note);
  if (!in.is_sound || !in.in.ok() || !in.in.at_end()) return std::nullopt;
  for (const RankNote& rank : read.note.ranks)
    for (const RankNote::Came& came : rank.came)
      if (!std::all_of(came.entries.begin(), came.entries.end(), has_its_values))
        return std::nullopt;
  return read;
}

}  // namespace lockstep::lines
