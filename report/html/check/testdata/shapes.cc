#include <iostream>
#include <string>
#include <vector>

namespace shapes {

template <typename T> struct Box {
  explicit Box(T v) : value(v) {}
  T doubled() const {
    if (value > T{})
      return value + value;
    return T{};
  }
  T value;
};

template <typename T> T largest(const std::vector<T> &list) {
  T best = list.front();
  for (const T &x : list)
    if (best < x)
      best = x;
  return best;
}

class Quiet {
public:
  ~Quiet() { std::cerr << "never"; }
};

} // namespace shapes

template std::string shapes::largest(const std::vector<std::string> &);
template long shapes::largest(const std::vector<long> &);

int main() {
  shapes::Box<int> a(3);
  shapes::Box<double> b(-1.5);
  std::cout << a.doubled() << R"(raw "string" </script>)" << b.doubled() << '\n';
  std::cout << shapes::largest(std::vector<int>{1, 5, 2}) << shapes::largest(std::vector<double>{1, 0.5}) << '\n';
  try {
    if (a.value > 100)
      throw std::string("too <large>");
  } catch (const std::string &s) {
    std::cout << s;
  }
}
