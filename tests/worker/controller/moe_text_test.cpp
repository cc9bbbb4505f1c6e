// The training example under a controller: a program whose all-to-alls have sizes that the data
// give on each worker, and experts of their own on each.
#include <cmath>
#include <sstream>

#include "moe_text/start.h"
#include "workers_process.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace lockstep::worker::moe_text_test {
namespace {

using moe_text::Batch;
using moe_text::Parameters;
using moe_text::StepInput;
using moe_text::StepOutput;

constexpr int kSteps = 6, kLines = 24;

/// One tensor per worker, each as `of` its number makes it.
template <class Struct, class Make>
Struct put_each(Controller& controller, const Make& of,
                const std::function<std::vector<Tensor*>(Struct&)>& leaves) {
  std::vector<Struct> own;
  for (int worker = 0; worker < controller.workers(); ++worker) own.push_back(of(worker));
  Struct out;
  const std::vector<Tensor*> to = leaves(out);
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::vector<Array> each;
    for (Struct& one : own) each.push_back(leaves(one)[i]->array());
    auto put = controller.put(each);
    if (!put) ADD_FAILURE() << put.error().text();
    *to[i] = *put;
  }
  return out;
}

std::vector<Tensor*> parameters_of(Parameters& p) {
  const auto all = p.all();
  return {all.begin(), all.end()};
}
std::vector<Tensor*> tensors_of(Batch& batch) {
  return {&batch.tokens, &batch.rows, &batch.targets};
}

class MoeTextController : public testing::TestWithParam<int> {};

TEST_P(MoeTextController, LosesWhatItsRanksLoseWithoutAController) {
  const int n = GetParam();
  const Folder folder;
  const std::string file = folder / "losses";
  const Launched alone = launch_ranks(
      n, fmt::format("{} --losses {} --steps {} --lines {}", MOE_TEXT, file, kSteps, kLines));
  ASSERT_EQ(alone.exit_code, 0) << alone.output;
  std::istringstream lines(contents(file));
  std::vector<double> wanted;
  for (double loss = 0; lines >> loss;) wanted.push_back(loss);
  ASSERT_EQ(wanted.size(), static_cast<std::size_t>(kSteps));

  moe_text::Text text;
  std::string error;
  ASSERT_TRUE(moe_text::read_text({moe_text::usual_text()}, text, error)) << error;
  test::WorkersProcess workers(n);
  const auto controller = workers.connect();
  ASSERT_TRUE(controller);
  auto step = controller->frame<StepInput, StepOutput>("train_step", [n](StepInput in) {
    const Autocast precision(in.parameters.embed, DType::F32);
    return moe_text::step(in, n);
  });
  ASSERT_TRUE(step) << step.error().text();
  const moe_text::Shape shape;
  const auto first = [&](int worker) { return moe_text::initial(shape, DType::F32, worker, n); };
  const auto zeros = [&](int worker) {
    Parameters like = first(worker);
    return moe_text::zeros_of(like);
  };
  StepInput in;
  in.parameters = put_each<Parameters>(*controller, first, parameters_of);
  in.first_moment = put_each<Parameters>(*controller, zeros, parameters_of);
  in.second_moment = put_each<Parameters>(*controller, zeros, parameters_of);
  std::vector<Tensor> losses;
  for (int s = 1; s <= kSteps; ++s) {
    const auto share = [&](int worker) {
      Batch batch;
      moe_text::assign(
          batch, moe_text::share_of_batch(text.train, static_cast<std::size_t>(kLines * (s - 1)),
                                          kLines, worker, n));
      return batch;
    };
    in.batch = put_each<Batch>(*controller, share, tensors_of);
    in.rate = 3e-3 * std::sqrt(1 - std::pow(0.999, s)) / (1 - std::pow(0.9, s));
    auto out = (*step)(std::move(in));
    ASSERT_TRUE(out) << out.error().text();
    in.parameters = out->parameters, in.first_moment = out->first_moment;
    in.second_moment = out->second_moment;
    losses.push_back(out->measures.loss);
  }
  for (int s = 0; s < kSteps; ++s) {
    const auto loss = controller->fetch(losses[static_cast<std::size_t>(s)], n - 1);
    ASSERT_TRUE(loss) << loss.error().text();
    EXPECT_EQ(loss->at(0), wanted[static_cast<std::size_t>(s)]) << "step " << s;
  }
  EXPECT_TRUE(controller->finish());
  EXPECT_EQ(workers.wait(), 0) << workers.output();
}

INSTANTIATE_TEST_SUITE_P(Workers, MoeTextController, testing::Values(1, 2, 4),
                         [](const auto& param) { return fmt::format("n{}", param.param); });

}  // namespace
}  // namespace lockstep::worker::moe_text_test
