#pragma once

#include "kvpop/core/simd.hpp"  // vec, fma, select

/// @file
/// exp, log and what follows from them, on vectors and with the same bits on scalars. Errors are in units in the last
/// place of the true value, largest found over every float with -mfma; tests/core/math_test.cpp checks them in double.
/// Infinities and NaN are handled by arithmetic and on bits, so -ffast-math keeps them right.

KVPOP_NAMESPACE_BEGIN

namespace simd {

/// e^x within 1 ulp. exp(-infinity) is 0; results below 2^-125.5 (x < -86.99) are 0, so that flush-to-zero changes
/// nothing; x above 88.7228 gives infinity; NaN stays NaN.
KVPOP_INLINE vec exp(vec x) noexcept {
  const vec clamped = min(broadcast(88.9F), max(broadcast(-87.5F), x));  // NaN passes: see min and max
  // Adding 1.5 * 2^23 rounds to an integer that stands in the low bits.
  const vec shifted = fma(clamped, broadcast(1.44269504F), broadcast(0x1.8p23F));
  const ivec n = reinterpret_cast<ivec>(as_bits(shifted) - 0x4b400000U);  // -126 .. 128, x / log(2) to nearest
  const vec nf = __builtin_convertvector(n, vec);
  vec r = fma(nf, broadcast(-0.693359375F), clamped);  // log(2) in two parts, the first with 15 zero bits at its end
  r = fma(nf, broadcast(2.12194440e-4F), r);
  vec p = fma(r, broadcast(2.762893412e-3F), broadcast(1.673756082e-2F));  // twice a minimax polynomial on |r| < 0.347
  p = fma(p, r, broadcast(8.333678842e-2F));
  p = fma(p, r, broadcast(3.333304022e-1F));
  p = fma(p, r, broadcast(9.999998683e-1F));
  p = fma(p, r, broadcast(2.0F));
  p = fma(p, r, broadcast(2.0F));
  // 2^(n - 1): the exponent field of n = -126 is 0, which makes the result 0; n = 128 overflows to infinity.
  return p * as_floats((reinterpret_cast<uvec>(n) + 126U) << 23);
}

/// The natural logarithm within 1 ulp. log(0) is -infinity, log(infinity) infinity, log of a negative number NaN.
/// Subnormals are exact inputs, even under flush-to-zero.
KVPOP_INLINE vec log(vec x) noexcept {
  const uvec bits = as_bits(x);
  const ivec tiny = bits < 0x800000U;  // subnormal or zero: bits * 2^-149
  const uvec scaled = as_bits(__builtin_convertvector(reinterpret_cast<ivec>(bits), vec));
  const uvec normal = select(tiny, scaled, bits);
  const ivec e = reinterpret_cast<ivec>(normal - 0x3f3504f3U) >> 23;  // m in [sqrt(1/2), sqrt(2))
  const vec f = as_floats(normal - (reinterpret_cast<uvec>(e) << 23)) - 1.0F;
  const vec k = __builtin_convertvector(e, vec) + select(tiny, broadcast(-149.0F), vec{});
  vec p = fma(f, broadcast(6.746651364e-2F), broadcast(-1.167565452e-1F));
  p = fma(p, f, broadcast(1.188815888e-1F));
  p = fma(p, f, broadcast(-1.240558826e-1F));
  p = fma(p, f, broadcast(1.421955273e-1F));
  p = fma(p, f, broadcast(-1.666799590e-1F));
  p = fma(p, f, broadcast(2.000211864e-1F));
  p = fma(p, f, broadcast(-2.500000960e-1F));
  p = fma(p, f, broadcast(3.333331260e-1F));
  const vec square = f * f;
  p = fma(k, broadcast(-2.12194440e-4F), p * f * square);
  p = fma(broadcast(-0.5F), square, p);
  const vec finite = fma(k, broadcast(0.693359375F), f + p);
  uvec result = select(bits >= 0x7f800000U, bits, as_bits(finite));                  // infinity, NaN
  result = select(bits > 0x80000000U, broadcast_bits(0x7fc00000U), result);          // negative
  return as_floats(select((bits << 1) == 0U, broadcast_bits(0xff800000U), result));  // +0, -0
}

/// log(1 + u) for u in [0, 1], within 2 ulp.
KVPOP_INLINE vec log1p_unit(vec u) noexcept {
  const vec s = u / (u + 2.0F);  // log(1 + u) = 2 artanh(s)
  const vec z = s * s;
  vec p = fma(z, broadcast(1.215046708e-1F), broadcast(1.071382907e-1F));
  p = fma(p, z, broadcast(1.430844238e-1F));
  p = fma(p, z, broadcast(1.999943887e-1F));
  p = fma(p, z, broadcast(3.333333781e-1F));
  const vec twice = s + s;
  return fma(twice * z, p, twice);
}

/// |x|, on bits.
KVPOP_INLINE vec abs(vec x) noexcept { return as_floats(as_bits(x) & 0x7fffffffU); }
/// -x, on bits.
KVPOP_INLINE vec negate(vec x) noexcept { return as_floats(as_bits(x) ^ 0x80000000U); }

/// 1 / (1 + e^-x), within 3 ulp for x > -86.9, below that 0. No infinity is divided by: -ffast-math would make it NaN.
KVPOP_INLINE vec sigmoid(vec x) noexcept {
  const vec e = exp(negate(abs(x)));
  return select(x < 0.0F, e, broadcast(1.0F)) / (1.0F + e);
}

/// x * sigmoid(x), within 4 ulp for x > -86.9; 0 below.
KVPOP_INLINE vec silu(vec x) noexcept { return max(broadcast(-1000.0F), x) * sigmoid(x); }

/// log(sigmoid(x)), within 3 ulp for x < 86.9, above that 0.
KVPOP_INLINE vec log_sigmoid(vec x) noexcept { return min(vec{}, x) - log1p_unit(exp(negate(abs(x)))); }

/// log(1 + e^x), within 3 ulp for x > -86.9, below that 0.
KVPOP_INLINE vec softplus(vec x) noexcept { return max(vec{}, x) + log1p_unit(exp(negate(abs(x)))); }

/// tanh within 2 ulp.
KVPOP_INLINE vec tanh(vec x) noexcept {
  const vec a = abs(x);
  const vec z = a * a;
  vec p = fma(z, broadcast(-5.603915453e-3F), broadcast(2.055172083e-2F));
  p = fma(p, z, broadcast(-5.371410783e-2F));
  p = fma(p, z, broadcast(1.333115281e-1F));
  p = fma(p, z, broadcast(-3.333327208e-1F));
  const vec polynomial = fma(p * z, a, a);
  const vec e = exp(negate(a + a));
  const vec quotient = (1.0F - e) / (1.0F + e);
  const uvec magnitude = as_bits(select(a < 0.625F, polynomial, quotient));
  return as_floats(magnitude | (as_bits(x) & 0x80000000U));
}

/// The same functions of one number, with the bits that a lane would have.
KVPOP_INLINE float exp(float x) noexcept { return exp(broadcast(x))[0]; }
KVPOP_INLINE float log(float x) noexcept { return log(broadcast(x))[0]; }
KVPOP_INLINE float sigmoid(float x) noexcept { return sigmoid(broadcast(x))[0]; }
KVPOP_INLINE float silu(float x) noexcept { return silu(broadcast(x))[0]; }
KVPOP_INLINE float log_sigmoid(float x) noexcept { return log_sigmoid(broadcast(x))[0]; }
KVPOP_INLINE float softplus(float x) noexcept { return softplus(broadcast(x))[0]; }
KVPOP_INLINE float tanh(float x) noexcept { return tanh(broadcast(x))[0]; }

}  // namespace simd

KVPOP_NAMESPACE_END
