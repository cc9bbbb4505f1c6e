// A job of one rank that compiles one frame and runs it at two sizes. Includes rooms by their former
// paths, too.
#include <lockstep/worker/autodiff/control_flow.h>
#include <lockstep/worker/compile/opcheck/opcheck.h>
#include <lockstep/worker/job.h>
#include <lockstep/worker/opcheck/opcheck.h>

using namespace lockstep::worker;

struct Vector {
  Tensor x;
  template <class V>
  void fields(V& v) {
    v("x", x);
  }
};

int main(int argc, char** argv) {
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());
  auto square =
      (*job)->frame<Vector, Vector>("square", [](Vector in) { return Vector{sum(in.x * in.x)}; });
  return (*job)->run([&]() -> lockstep::Result<void> {
    for (const std::int64_t n : {3, 5}) {
      const auto out = square({Array::of(lockstep::DType::F64, {n}, std::vector<double>(n, 2.0))});
      if (!out) return out.error();
      if (out->x.array().at(0) != 4.0 * static_cast<double>(n))
        return lockstep::Status{lockstep::Code::Internal, "a wrong sum", {}, {}};
    }
    return {};
  });
}
