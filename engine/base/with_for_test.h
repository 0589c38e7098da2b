// For std::unique_ptr: what a function of C frees.
#pragma once

namespace unis {

template <auto Free>
struct With {
  template <typename T>
  void operator()(T* t) const {
    Free(t);
  }
};

}  // namespace unis
