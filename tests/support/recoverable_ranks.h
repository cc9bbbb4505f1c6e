// A job with ranks that fail and recover. Every rank has a compiler and an artifact cache of its
// own, as on several hosts. A frame sends rows to ranks that the data chooses.
#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "compiler_ranks.h"

namespace lockstep::worker {

/// `counts` says how many of `rows` go to each rank. A row is the index of an entry in `table` of
/// the receiving rank, which takes at most room[0] rows.
struct Parcel {
  Tensor rows, counts, table, room;
  template <class V>
  void fields(V& v) {
    v("rows", rows), v("counts", counts), v("table", table), v("room", room);
  }
};

/// The sum, over all ranks, of the table entries that the received rows name, times `factor`.
inline Y delivered(const Parcel& in, double factor) {
  const Sizes to = tolist(in.counts, Values::NonNegative);
  const Sizes from = tolist(all_to_all_single(in.counts), Values::NonNegative);
  SymInt all = from[0];
  for (std::size_t p = 1; p < from.size(); ++p) all = all + from[p];
  check(all <= tolist(in.room)[0], "there is room for the rows");
  const Tensor there = all_to_all_single(in.rows, from, to);
  return Y{all_reduce(sum(index_select(in.table, there))) * factor};
}

class RecoverableRanks : public JobRanks {
 protected:
  static constexpr int kEntries = 5;

  void SetUp() override {
    JobRanks::SetUp();
    write_compiler();
    restart({});
  }

  /// Starts a job that logs to stderr, with a cold cache.
  void restart(DecisionConfig decision) {
    Settings settings = quiet();
    settings.log = {"info"};
    settings.cache_dir = folder / ("cache." + std::to_string(rank) + "." + std::to_string(++jobs));
    settings.compiler = compiler();
    cache = settings.cache_dir;
    said_while([&] { start(decision, settings); });
  }

  [[nodiscard]] static int rows_to(int from, int to, int call) { return (from + to + call) % 3; }
  /// This rank's input for a call. The tables have another size at every call, equal on all ranks:
  /// if this size must be static, no entry serves two calls.
  [[nodiscard]] Parcel parcel(int call) const {
    std::vector<std::int64_t> rows, counts;
    for (int p = 0; p < size; ++p) {
      counts.push_back(rows_to(rank, p, call));
      for (int j = 0; j < counts.back(); ++j) rows.push_back((rank + j + call) % kEntries);
    }
    Array table(DType::F64, {kEntries + call});
    for (int k = 0; k < kEntries + call; ++k) table.set(k, entry(rank, k, call));
    return {integers(rows), integers(counts), table, integers({1000})};
  }
  /// What all ranks get from call `call`, by plain loops over the inputs of all ranks.
  [[nodiscard]] double sum_of(int call, double factor = 1) const {
    double total = 0;
    for (int r = 0; r < size; ++r)
      for (int p = 0; p < size; ++p)
        for (int j = 0; j < rows_to(r, p, call); ++j)
          total += entry(p, (r + j + call) % kEntries, call);
    return total * factor;
  }
  CompiledFrame<Parcel, Y> frame(const std::string& name, double factor = 1) const {
    return job->frame<Parcel, Y>(name,
                                 [factor](const Parcel& in) { return delivered(in, factor); });
  }

  void expect_right(CompiledFrame<Parcel, Y>& step, int call, double factor = 1) const {
    const auto out = step(parcel(call));
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), sum_of(call, factor)) << "call " << call;
  }
  /// Expects that all ranks have this code, and a table with a row for exactly the ranks `guilty`,
  /// with `text`.
  template <class Out>
  void expect_error(const Result<Out>& result, Code code, const RankSet& guilty,
                    const std::string& text) const {
    ASSERT_FALSE(result) << "went well, wanted " << code_name(code);
    const Status& error = result.error();
    expect_joint(error);
    EXPECT_EQ(code_name(error.code), code_name(code)) << error.text();
    bool told = false;
    for (const RankValue& row : error.groups)
      told = told || (row.ranks == guilty && contains(row.value, text));
    EXPECT_TRUE(told) << "ranks " << guilty.text() << " with " << text << " in " << error.text();
  }
  /// Expects that three frames work: the one that failed, `other`, which existed before, and a new
  /// one.
  void expect_goes_on(CompiledFrame<Parcel, Y>& failed, double factor,
                      CompiledFrame<Parcel, Y>& other) {
    for (int call = 20; call < 23; ++call) {
      expect_right(failed, call, factor);
      expect_right(other, call);
    }
    auto fresh = frame("fresh", 7);
    expect_right(fresh, 23, 7);
    EXPECT_TRUE(finish());
  }

  /// Returns what this rank logs while `act` runs.
  template <class Do>
  static std::string said_while(Do act) {
    testing::internal::CaptureStderr();
    act();
    std::string said = testing::internal::GetCapturedStderr();
    if (HasFailure()) std::fputs(said.c_str(), stderr);
    return said;
  }

  [[nodiscard]] std::string compiler() const {
    return folder / ("compiler." + std::to_string(rank));
  }
  /// What this rank's compiler does with its input from now on: "" (builds it), "rejects" (the text
  /// gets a line that is no C++), "dies", "full" (its disk is full).
  void compiler_does(const std::string& what) const { std::ofstream(compiler() + ".does") << what; }

  SharedFolder folder;
  std::string cache;  // cache of this rank's current job
  int jobs = 0;

 private:
  void write_compiler() const {
    std::ofstream script(compiler());
    script
        << "#!/bin/sh\ncase \" $* \" in *\" -o \"*)\n  case $(cat " << compiler()
        << ".does) in\n    rejects) { echo 'int = ;'; cat; } | c++ \"$@\"; exit $?;;\n"
           "    dies) kill -9 $$;;\n    full) exec c++ \"$@\" 3>/dev/full;;\n  esac;;\nesac\nexec "
           "c++ \"$@\"\n";
    script.close();
    std::filesystem::permissions(compiler(), std::filesystem::perms::owner_all);
    compiler_does("");
  }
  [[nodiscard]] static double entry(int rank, int number, int call) {
    return 10.0 * rank + number + 0.5 * call;
  }
};

}  // namespace lockstep::worker
