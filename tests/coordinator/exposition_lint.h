// What `promtool check metrics` complains about, for tests: a text of metrics taken apart line by
// line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::coordinator {

/// One sentence for each problem: lines that are none; families without HELP or TYPE, in two places
/// or of an unknown type; samples that are not of their family; counters without _total and others
/// with it; other units than base ones; the same series twice; histograms whose buckets are not
/// cumulative or do not end with +Inf at the count; labels that are none, or reserved.
[[nodiscard]] std::vector<std::string> lint(std::string_view text);

}  // namespace lockstep::coordinator
