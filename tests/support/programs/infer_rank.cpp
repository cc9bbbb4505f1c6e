// A program of two frames for infer_test: `infer_rank [SECONDS]` waits before its second frame.
#include <chrono>
#include <cstdlib>
#include <thread>

#include <lockstep/worker/job.h>

using namespace lockstep::worker;

namespace {

struct In {
  Tensor x;
  SymInt n;
  bool wide = false;
  template <class V>
  void fields(V& v) {
    v("x", x), v("n", n), v("wide", wide);
  }
};
struct Out {
  Tensor y;
  template <class V>
  void fields(V& v) {
    v("y", y);
  }
};

Out first(In in) {
  Tensor y = in.x * 2.0;
  if (in.x.size(0) * in.n > 40) y = y + 1.0;  // first branch
  check(in.x.size(0) != 9, "not nine");
  return {all_reduce(sum(y))};
}

Out second(In in) {
  if (in.wide) return {sum(in.x * 2.0)};
  if (in.x.size(0) > 8) return {sum(in.x)};  // second branch
  return {sum(in.x * 3.0)};
}

}  // namespace

int main(int argc, char** argv) {
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());
  auto one = (*job)->frame<In, Out>("one", first);
  auto two = (*job)->frame<In, Out>("two", second);
  return (*job)->run([&]() -> lockstep::Result<void> {
    for (std::int64_t step = 0; step < 3; ++step) {
      const auto x = Array::zeros(lockstep::DType::F64, {3 + step + (*job)->rank(), 2});
      auto out = one({x, SymInt(step + 2)});
      if (!out) return out.error();
      if (step == 0 && argc > 1)
        std::this_thread::sleep_for(std::chrono::seconds(std::atoi(argv[1])));
      (void)out->y.array().at(0);
      if (auto next = two({x, SymInt(1), step == 1}); !next) return next.error();
    }
    return {};
  });
}
