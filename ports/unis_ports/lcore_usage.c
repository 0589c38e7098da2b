/* SPDX-License-Identifier: BSD-3-Clause */
#include "lcore_usage.h"

#include <rte_common.h>
#include <rte_lcore.h>
#include <rte_telemetry.h>
#include <rte_version.h>
#include <stdlib.h>

bool lcore_usage_on;
static struct lcore_usage usages[RTE_MAX_LCORE];

struct lcore_usage *lcore_usage_here(void) {
  const unsigned int lcore = rte_lcore_id();

  return lcore < RTE_MAX_LCORE ? &usages[lcore] : NULL;
}

static int tell(const char *cmd __rte_unused, const char *params __rte_unused,
                struct rte_tel_data *data) {
  struct rte_tel_data *ids = rte_tel_data_alloc();
  struct rte_tel_data *total = rte_tel_data_alloc();
  struct rte_tel_data *busy = rte_tel_data_alloc();
  unsigned int lcore;

  if (ids == NULL || total == NULL || busy == NULL) {
    rte_tel_data_free(ids);
    rte_tel_data_free(total);
    rte_tel_data_free(busy);
    return -1;
  }
  rte_tel_data_start_dict(data);
  rte_tel_data_start_array(ids, RTE_TEL_U64_VAL);
  rte_tel_data_start_array(total, RTE_TEL_U64_VAL);
  rte_tel_data_start_array(busy, RTE_TEL_U64_VAL);
  for (lcore = 0; lcore < RTE_MAX_LCORE; lcore++) {
    const struct lcore_usage *usage = &usages[lcore];
    const uint64_t began = __atomic_load_n(&usage->began, __ATOMIC_RELAXED);
    const uint64_t worked = __atomic_load_n(&usage->busy, __ATOMIC_RELAXED);

    if (began == 0) continue;
    rte_tel_data_add_array_u64(ids, lcore);
    rte_tel_data_add_array_u64(total, rte_rdtsc() - began); /* at last: no less than `worked` */
    rte_tel_data_add_array_u64(busy, worked);
  }
  rte_tel_data_add_dict_container(data, "lcore_ids", ids, 0);
  rte_tel_data_add_dict_container(data, "total_cycles", total, 0);
  rte_tel_data_add_dict_container(data, "busy_cycles", busy, 0);
  return 0;
}

void lcore_usage_create(void) {
#if RTE_VERSION < RTE_VERSION_NUM(23, 3, 0, 0)
  if (getenv(UNIS_LCORE_USAGE_VARIABLE) == NULL) return;
  lcore_usage_on =
      rte_telemetry_register_cmd("/eal/lcore/usage", tell,
                                 "Returns lcore cycles usage. Takes no parameters") == 0;
#endif
}
