/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers with units: what is read, and what is refused. */
#include "hosts/quantity.h"

#include "harness/test.h"

TEST(units_are_those_of_tc)
{
    static const struct {
        quantity kind;
        const char *text;
        double value;
    } cases[] = {
        {QUANTITY_RATE, "1gbit", 1e9}, {QUANTITY_RATE, "2.5gbit", 2.5e9}, {QUANTITY_RATE, "100mbit", 1e8},
        {QUANTITY_RATE, "1kbit", 1e3}, {QUANTITY_TIME, "500us", 500e-6},  {QUANTITY_TIME, "5ms", 5e-3},
        {QUANTITY_TIME, "10s", 10},    {QUANTITY_TIME, "0us", 0},         {QUANTITY_PART, "0.1%", 0.001},
        {QUANTITY_PART, "0%", 0},      {QUANTITY_PART, "50%", 0.5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value = -1;
        CHECK_MSG(quantity_read(cases[i].kind, cases[i].text, &value), "'%s' is not read", cases[i].text);
        CHECK_NEAR(value, cases[i].value, 1e-12 * cases[i].value);
    }
}

TEST(what_is_no_quantity_is_refused)
{
    static const struct {
        quantity kind;
        const char *text;
    } cases[] = {
        {QUANTITY_RATE, ""},          {QUANTITY_RATE, "gbit"},    {QUANTITY_RATE, "1"},
        {QUANTITY_RATE, "1Gbit"},     {QUANTITY_RATE, "0gbit"},   {QUANTITY_RATE, "-1gbit"},
        {QUANTITY_RATE, "101gbit"},   {QUANTITY_RATE, " 1gbit"},  {QUANTITY_RATE, "1gbit "},
        {QUANTITY_RATE, "1ms"},       {QUANTITY_RATE, "nangbit"}, {QUANTITY_RATE, "1e300gbit"},
        {QUANTITY_TIME, "5"},         {QUANTITY_TIME, "11s"},     {QUANTITY_TIME, "-1ms"},
        {QUANTITY_PART, "100%"},      {QUANTITY_PART, "0.1"},     {QUANTITY_PART, "%"},
        {QUANTITY_PART, "infinity%"},
    };
    double value;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_MSG(!quantity_read(cases[i].kind, cases[i].text, &value), "'%s' is read", cases[i].text);
}
