// Streaming kernels in CUDA C++, in the manner of BabelStream: what a plain compiled program reaches on this card.
//   nvcc -O3 -arch=sm_90 -o stream_cuda stream.cu && ./stream_cuda 4096 25
// One JSON line per kernel and launch shape: median GB/s over the repetitions. Each kernel's result is checked; a wrong
// one is not reported. Arguments: MiB per array, repetitions.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                      \
  do {                                                                                   \
    cudaError_t status = (call);                                                         \
    if (status != cudaSuccess) {                                                         \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));               \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (0)

constexpr double SCALE = 0.4;
constexpr int MAX_BLOCKS = 1 << 16;

__global__ void fill(double *a, size_t n, double base) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    a[i] = base + double(i % 1021) * 1e-3;
}

__global__ void copy(const double *a, double *c, size_t n) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) c[i] = a[i];
}

__global__ void triad(const double *b, const double *c, double *a, size_t n) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) a[i] = b[i] + SCALE * c[i];
}

__global__ void write(double *a, size_t n) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) a[i] = SCALE;
}

// The same with 16 bytes a thread.
__global__ void copy2(const double2 *a, double2 *c, size_t n) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) c[i] = a[i];
}

__global__ void triad2(const double2 *b, const double2 *c, double2 *a, size_t n) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) a[i] = make_double2(b[i].x + SCALE * c[i].x, b[i].y + SCALE * c[i].y);
}

__global__ void write2(double2 *a, size_t n) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) a[i] = make_double2(SCALE, SCALE);
}

// Two doubles a load, UNROLL independent loads in flight a thread, one partial sum a block.
template <int UNROLL>
__global__ void read(const double2 *a, double *partial, size_t pairs) {
  extern __shared__ double shared[];
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  double sum = 0;
  for (; i + (UNROLL - 1) * stride < pairs; i += UNROLL * stride) {
    double2 v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) v[u] = a[i + u * stride];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) sum += v[u].x + v[u].y;
  }
  for (; i < pairs; i += stride) sum += a[i].x + a[i].y;
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = shared[0];
}

template <class Launch>
double median_seconds(Launch launch, int repetitions) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> milliseconds;
  for (int r = 0; r < repetitions + 3; ++r) {
    CHECK(cudaEventRecord(begin));
    launch();
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaGetLastError());
    float elapsed;
    CHECK(cudaEventElapsedTime(&elapsed, begin, end));
    if (r >= 3) milliseconds.push_back(elapsed);
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  return milliseconds[milliseconds.size() / 2] * 1e-3;
}

void report(const char *kernel, size_t mib, int block, int unroll, int blocks_per_sm, double bytes, double seconds) {
  std::printf("{\"kernel\": \"%s\", \"mib\": %zu, \"block\": %d, \"unroll\": %d, \"blocks_per_sm\": %d, \"gbps\": %.1f}\n",
              kernel, mib, block, unroll, blocks_per_sm, bytes / seconds / 1e9);
}

bool same(const double *device, size_t index, double wanted) {
  double got;
  CHECK(cudaMemcpy(&got, device + index, sizeof got, cudaMemcpyDeviceToHost));
  return std::fabs(got - wanted) <= 1e-12 * std::fabs(wanted);
}

double value(size_t i, double base) { return base + double(i % 1021) * 1e-3; }

template <int UNROLL>
void measure_read(const double *a, double *partial, size_t n, size_t mib, int multiprocessors, int repetitions) {
  double wanted = 0;
  for (size_t i = 0; i < 1021; ++i) wanted += value(i, 1.0);
  wanted *= double(n / 1021);
  for (size_t i = 0; i < n % 1021; ++i) wanted += value(i, 1.0);
  for (int block : {256, 512, 1024})
    for (int per_sm : {1, 2, 4, 8, 16}) {
      const int blocks = multiprocessors * per_sm;
      auto launch = [&] {
        read<UNROLL><<<blocks, block, block * sizeof(double)>>>(reinterpret_cast<const double2 *>(a), partial, n / 2);
      };
      const double seconds = median_seconds(launch, repetitions);
      std::vector<double> parts(blocks);
      CHECK(cudaMemcpy(parts.data(), partial, blocks * sizeof(double), cudaMemcpyDeviceToHost));
      double sum = 0;
      for (double part : parts) sum += part;
      if (std::fabs(sum / wanted - 1) < 1e-9) report("read", mib, block, UNROLL, per_sm, n * 8.0, seconds);
    }
}

int main(int argc, char **argv) {
  const size_t mib = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 4096;
  const int repetitions = argc > 2 ? std::atoi(argv[2]) : 25;
  const size_t n = mib * (1 << 20) / sizeof(double);
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  double *a, *b, *c, *partial;
  CHECK(cudaMalloc(&a, n * sizeof(double)));
  CHECK(cudaMalloc(&b, n * sizeof(double)));
  CHECK(cudaMalloc(&c, n * sizeof(double)));
  CHECK(cudaMalloc(&partial, MAX_BLOCKS * sizeof(double)));
  fill<<<1024, 256>>>(a, n, 1.0);
  fill<<<1024, 256>>>(b, n, 2.0);
  CHECK(cudaDeviceSynchronize());
  for (int block : {256, 512, 1024}) {
    const unsigned grid = unsigned((n + block - 1) / block);
    double seconds = median_seconds([&] { copy<<<grid, block>>>(a, c, n); }, repetitions);
    if (same(c, n - 1, value(n - 1, 1.0))) report("copy", mib, block, 1, 0, n * 16.0, seconds);
    seconds = median_seconds([&] { triad<<<grid, block>>>(a, b, c, n); }, repetitions);
    if (same(c, n - 1, value(n - 1, 1.0) + SCALE * value(n - 1, 2.0))) report("triad", mib, block, 1, 0, n * 24.0, seconds);
    seconds = median_seconds([&] { write<<<grid, block>>>(c, n); }, repetitions);
    if (same(c, n - 1, SCALE)) report("write", mib, block, 1, 0, n * 8.0, seconds);
    const unsigned half = unsigned((n / 2 + block - 1) / block);
    double2 *a2 = reinterpret_cast<double2 *>(a), *b2 = reinterpret_cast<double2 *>(b), *c2 = reinterpret_cast<double2 *>(c);
    CHECK(cudaMemset(c, 0, n * sizeof(double)));
    seconds = median_seconds([&] { copy2<<<half, block>>>(a2, c2, n / 2); }, repetitions);
    if (same(c, n - 1, value(n - 1, 1.0))) report("copy", mib, block, 2, 0, n * 16.0, seconds);
    seconds = median_seconds([&] { triad2<<<half, block>>>(a2, b2, c2, n / 2); }, repetitions);
    if (same(c, n - 1, value(n - 1, 1.0) + SCALE * value(n - 1, 2.0))) report("triad", mib, block, 2, 0, n * 24.0, seconds);
    seconds = median_seconds([&] { write2<<<half, block>>>(c2, n / 2); }, repetitions);
    if (same(c, n - 1, SCALE)) report("write", mib, block, 2, 0, n * 8.0, seconds);
  }
  measure_read<1>(a, partial, n, mib, properties.multiProcessorCount, repetitions);
  measure_read<2>(a, partial, n, mib, properties.multiProcessorCount, repetitions);
  measure_read<4>(a, partial, n, mib, properties.multiProcessorCount, repetitions);
  measure_read<8>(a, partial, n, mib, properties.multiProcessorCount, repetitions);
  return 0;
}
