// Errors are values: one sentence that names what was wrong, where, and what to do about it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace unis::functions {

struct Error {
  std::string message;
};

// The outcome of an operation that has nothing to return but its failure.
using Failure = std::optional<Error>;

template <class T>
class Result {
 public:
  Result(T value) : state_(std::move(value)) {}  // NOLINT: implicit, so that `return value;` reads
  Result(Error error) : state_(std::move(error)) {}  // NOLINT

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }
  T& operator*() { return std::get<T>(state_); }
  const T& operator*() const { return std::get<T>(state_); }
  T* operator->() { return &std::get<T>(state_); }
  const T* operator->() const { return &std::get<T>(state_); }
  const Error& error() const { return std::get<Error>(state_); }

 private:
  std::variant<T, Error> state_;
};

}  // namespace unis::functions
