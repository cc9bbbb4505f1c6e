#include <lockstep/collectives/wire/fields.h>

namespace lockstep::collectives {
namespace {

void replace_control_characters(std::string& text, bool keeps_lines) {
  for (char& c : text)
    if ((static_cast<unsigned char>(c) < 0x20 && !(keeps_lines && c == '\n')) || c == 0x7F) c = ' ';
}

}  // namespace

void FieldWriter::ranks(const RankSet& x, std::size_t most_runs, std::int64_t /*end*/) {
  list(x.runs(), most_runs, 8, [](FieldWriter& visit, const RankSet::Run& run) {
    visit.number(run.first), visit.number(run.last);
  });
}

void FieldReader::flag(bool& x) {
  std::uint8_t number = 0;
  below(number, 2);
  x = number == 1;
}

void FieldReader::port(std::uint16_t& x) {
  std::uint32_t number = 0;
  below(number, 65'536);
  x = static_cast<std::uint16_t>(number);
}

void FieldReader::rank(Rank& x, std::int64_t end) {
  std::uint32_t number = 0;
  below(number, static_cast<std::uint64_t>(end));
  x.value = static_cast<std::int32_t>(number);
}

void FieldReader::ranks(RankSet& x, std::size_t most_runs, std::int64_t end) {
  std::vector<RankSet::Run> runs;
  std::int64_t before = -2;
  list(runs, most_runs, 8, [&](FieldReader& visit, RankSet::Run& run) {
    Rank first, last;
    visit.rank(first, end), visit.rank(last, end);
    visit.require(first <= last && first.value > before + 1);
    before = last.value;
    run = {first.value, last.value};
  });
  if (!sound()) return;
  for (const RankSet::Run& run : runs) x.insert(run);
}

void FieldReader::span(Duration& x) {
  const Duration value{in_.i64()};
  require(value >= Duration{0} && value <= kLongestSpan);
  x = sound_ ? value : Duration{0};
}

void FieldReader::bytes(std::string& x, std::size_t most) {
  const std::span<const std::byte> bytes = in_.bytes();
  require(bytes.size() <= most);
  x.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void FieldReader::bytes(Bytes& x, std::size_t most) {
  const std::span<const std::byte> bytes = in_.bytes();
  require(bytes.size() <= most);
  x.assign(bytes.begin(), bytes.end());
}

void FieldReader::line(std::string& x, std::size_t most) {
  bytes(x, most);
  replace_control_characters(x, false);
}

void FieldReader::lines(std::string& x, std::size_t most) {
  bytes(x, most);
  replace_control_characters(x, true);
}

}  // namespace lockstep::collectives
