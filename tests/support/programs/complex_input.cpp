// An input with a number of type FIELD. Two tests compile it: with a double, and with a complex
// number, which must be refused in one sentence.
#include <complex>

#include <lockstep/worker/tensor/language/inputs.h>

struct Batch {
  FIELD phase;
  template <class V>
  void fields(V& v) {
    v("phase", phase);
  }
};

int main() {
  Batch batch{};
  lockstep::worker::InputTree tree;
  lockstep::worker::Observation seen;
  return lockstep::worker::flatten(batch, tree, seen).has_value() ? 0 : 1;
}
