#include "harness/test.h"
TEST(x) { }
