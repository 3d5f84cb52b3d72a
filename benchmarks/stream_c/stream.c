/* Streaming kernels in C with OpenMP, in the manner of STREAM: what a plain compiled program reaches on this CPU.
 *   cc -O3 -march=native -fopenmp -o stream_c stream.c && ./stream_c 1024 20
 * One JSON line per kernel: median and best GB/s, every array counted once per pass. Arguments: MiB per array,
 * repetitions. The arrays are checked afterwards; a wrong result ends the program with 1. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void *x, const void *y) {
  const double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

static void report(const char *kernel, long mib, double bytes, double *seconds, int repetitions) {
  qsort(seconds, (size_t)repetitions, sizeof *seconds, ascending);
  printf("{\"kernel\": \"%s\", \"mib\": %ld, \"threads\": %d, \"gbps\": %.2f, \"best_gbps\": %.2f}\n", kernel, mib,
         omp_get_max_threads(), bytes / seconds[repetitions / 2] / 1e9, bytes / seconds[0] / 1e9);
}

int main(int argc, char **argv) {
  const long mib = argc > 1 ? atol(argv[1]) : 1024;
  const int repetitions = argc > 2 ? atoi(argv[2]) : 20;
  const long n = mib * (1L << 20) / (long)sizeof(float);
  float *a = aligned_alloc(64, (size_t)n * sizeof *a);
  float *b = aligned_alloc(64, (size_t)n * sizeof *b);
  float *c = aligned_alloc(64, (size_t)n * sizeof *c);
  double *seconds = malloc((size_t)repetitions * sizeof *seconds);
  double *triads = malloc((size_t)repetitions * sizeof *triads);
  if (!a || !b || !c || !seconds || !triads) return 1;
  const float scale = 0.4f;
#pragma omp parallel for schedule(static)
  for (long i = 0; i < n; i++) {
    a[i] = 1.0f + (float)(i % 1021) * 1e-3f;
    b[i] = 2.0f;
    c[i] = 0.0f;
  }
  for (int r = 0; r < repetitions; r++) {
    double begin = omp_get_wtime();
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) c[i] = a[i];
    seconds[r] = omp_get_wtime() - begin;
    begin = omp_get_wtime();
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) b[i] = a[i] + scale * c[i];
    triads[r] = omp_get_wtime() - begin;
  }
  for (long i = 0; i < n; i += 997)
    if (fabsf(b[i] - 1.4f * a[i]) > 1e-5f) return 1;
  report("copy", mib, 2.0 * (double)n * sizeof(float), seconds, repetitions);
  report("triad", mib, 3.0 * (double)n * sizeof(float), triads, repetitions);
  return 0;
}
