// The functions of libstdc++ that the part for a release of torch uses and that the library of GCC
// 8 (manylinux_2_28) lacks, defined here by means of libstdc++'s headers. The part does not link
// libstdc++ statically: torch has loaded some version, and exceptions pass between part and torch.
#include <exception>
#include <new>
#include <sstream>

template class std::basic_stringbuf<char>;
template class std::basic_ostringstream<char>;

extern "C" {
asm(".symver lockstep_copied, _ZNSt15__exception_ptr13exception_ptrC1ERKS0_@CXXABI_1.3.3");
void lockstep_copied(void* copy, const std::exception_ptr* of);
asm(".symver lockstep_destroyed, _ZNSt15__exception_ptr13exception_ptrD1Ev@CXXABI_1.3.3");
void lockstep_destroyed(std::exception_ptr* pointer);
}

namespace std {

void __throw_bad_array_new_length() { throw bad_array_new_length(); }

void __exception_ptr::exception_ptr::_M_addref() noexcept {
  alignas(exception_ptr) char never_destroyed[sizeof(exception_ptr)];
  lockstep_copied(never_destroyed, this);
}
void __exception_ptr::exception_ptr::_M_release() noexcept { lockstep_destroyed(this); }

}  // namespace std
