// The cases of op_cases() that are in files of their own, by kind of op.
#pragma once

#include <vector>

#include "op_cases.h"

namespace lockstep::worker::test {

/// op_cases_elementwise.cpp
void add_elementwise(std::vector<OpCase>& cases);
/// op_cases_collectives.cpp
void add_collectives(std::vector<OpCase>& cases);
/// op_cases_index.cpp
void add_gathers(std::vector<OpCase>& cases);
void add_movement(std::vector<OpCase>& cases);
/// op_cases_order.cpp
void add_order(std::vector<OpCase>& cases);
/// op_cases_control.cpp
void add_control(std::vector<OpCase>& cases);
/// op_cases_layers.cpp
void add_layers(std::vector<OpCase>& cases);
/// op_cases_own.cpp
void add_own(std::vector<OpCase>& cases);

}  // namespace lockstep::worker::test
